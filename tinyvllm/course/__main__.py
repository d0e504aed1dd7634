"""`python -m tinyvllm.course`: the same as `python -m tinyvllm course`."""

import sys

from tinyvllm.course.cli import main

sys.exit(main())
