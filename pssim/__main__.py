"""``python -m pssim`` is the command ``pssim``."""

import sys

from pssim.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
