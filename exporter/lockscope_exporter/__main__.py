"""``python -m lockscope_exporter``: the command ``lockscope``."""

import sys

from lockscope_exporter.cli import main

sys.exit(main())
