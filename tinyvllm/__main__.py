"""`python -m tinyvllm`: the same as the command `tinyvllm`."""

import sys

from tinyvllm.cli import main

if __name__ == "__main__":
    sys.exit(main())
