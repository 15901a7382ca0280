"""What the pages draw; every function takes values and draws them, nothing here reads Redis."""
