"""Pure pandas: from the values of ``lockscope_exporter`` to the tables that the pages draw."""
