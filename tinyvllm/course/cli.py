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

from tinyvllm.course.journal import recover
from tinyvllm.course.project import CourseError, Project


def main(argv: Sequence[str] | None = None, project: Project | None = None) -> int:
    """Run one command and return its exit status; errors are sentences on stderr."""
    try:
        arguments = _parser().parse_args(argv)
        project = project or Project.here()
        recover(project)
        return arguments.run(project, arguments)
    except CourseError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except SystemExit as error:  # argparse: 0 for --help, 2 for a usage error
        return int(error.code or 0)


def _build(project: Project, arguments: argparse.Namespace) -> int:
    from tinyvllm.course.build import build

    numbers = arguments.numbers or ["all"]
    chapters = project.parse_numbers(numbers)
    if arguments.check:
        from tinyvllm.course.stale import check_all

        return check_all(project, full=arguments.full)
    return build(project, chapters, draft=arguments.draft, execute=arguments.execute)


def _promote(project: Project, arguments: argparse.Namespace) -> int:
    from tinyvllm.course.check import Checker
    from tinyvllm.course.promote import promote

    failed = 0
    with Checker(project) as checker:
        for chapter in project.parse_numbers(arguments.numbers):
            try:
                promote(project, chapter, checker)
            except CourseError as error:
                print(error, file=sys.stderr)
                failed = 1
    return failed


def _reset(project: Project, arguments: argparse.Namespace) -> int:
    from tinyvllm.course.reset import reset

    for chapter in project.parse_numbers(arguments.numbers):
        reset(project, chapter, notebook=arguments.notebook)
    return 0


def _test(project: Project, arguments: argparse.Namespace) -> int:
    from tinyvllm.course.check import Checker
    from tinyvllm.course.testing import run_chapter

    failed = 0
    with Checker(project) as checker:
        for chapter in project.parse_numbers(arguments.numbers):
            try:
                failed |= not run_chapter(project, chapter, checker, reference=arguments.ref)
            except CourseError as error:
                print(error, file=sys.stderr)
                failed = 1
    return int(failed)


def _status(project: Project, arguments: argparse.Namespace) -> int:
    from tinyvllm.course.status import status

    status(project)
    return 0


def _table(project: Project, arguments: argparse.Namespace) -> int:
    from tinyvllm.course.table import table

    print(table(project))
    return 0


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
    build.add_argument("--check", action="store_true", help="only look: is anything stale?")
    build.add_argument("--full", action="store_true", help="with --check: make all of it again")
    build.set_defaults(run=_build)

    test = commands.add_parser("test", help="are the exercises of chapter N right?")
    test.add_argument("numbers", nargs="*", metavar="N")
    test.add_argument("--ref", action="store_true", help="test the reference solution")
    test.set_defaults(run=_test)

    promote = commands.add_parser("promote", help="put your code into the package")
    promote.add_argument("numbers", nargs="*", metavar="N")
    promote.set_defaults(run=_promote)

    reset = commands.add_parser("reset", help="back to the reference")
    reset.add_argument("numbers", nargs="*", metavar="N")
    reset.add_argument("--notebook", action="store_true", help="the notebook too; keeps a copy")
    reset.set_defaults(run=_reset)

    status = commands.add_parser("status", help="what is done, whose code the package holds")
    status.set_defaults(run=_status)

    table = commands.add_parser("table", help="the chapters as a Markdown table")
    table.set_defaults(run=_table)
    return parser
