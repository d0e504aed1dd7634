"""`tinyvllm course`: the commands of the course, for a shell, make and CI.

    python -m tinyvllm course build [N ...]     from solutions/*.md to notebooks and modules
    python -m tinyvllm course test N            are the exercises of chapter N right?
    python -m tinyvllm course promote N         put your code into the package
    python -m tinyvllm course reset N           back to the reference
    python -m tinyvllm course status            what is done, whose code the package holds

N is 3, 03, several numbers, 3-5 or all. Exit status: 0 done, 1 not done, 2 a command that makes
no sense.
"""

import argparse
import sys
from collections.abc import Sequence

from tinyvllm.course.project import CourseError, Project


def main(argv: Sequence[str] | None = None, project: Project | None = None) -> int:
    """Run one command and return its exit status; errors are sentences on stderr."""
    try:
        arguments = _parser().parse_args(argv)
        return arguments.run(project or Project.here(), arguments)
    except CourseError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except SystemExit as error:  # argparse: 0 for --help, 2 for a usage error
        return int(error.code or 0)


def _build(project: Project, arguments: argparse.Namespace) -> int:
    from tinyvllm.course.build import build

    numbers = arguments.numbers or ["all"]
    chapters = project.parse_numbers(numbers)
    return build(project, chapters, draft=arguments.draft, execute=arguments.execute)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tinyvllm course",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    build = commands.add_parser("build", help="from solutions/*.md to notebooks and modules")
    build.add_argument("numbers", nargs="*", metavar="N")
    build.add_argument("--draft", action="store_true", help="run nothing, accept missing tests")
    build.add_argument("--execute", action="store_true", help="run chapters that have not changed")
    build.set_defaults(run=_build)
    return parser
