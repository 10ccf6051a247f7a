"""Entry point of ``hedgerow``: commands, errors, exit codes.

Exit codes: 0 done, even if the reader of standard output has closed it; 1 a bug in Hedgerow; 2 the
command, its files or its parameters must change, or standard output fails after the work is done;
130 interrupted, even if `train` has written the model of the completed rounds, because a script
should not continue as if the model were complete.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from hedgerow import __version__
from hedgerow.cli.commands import demo, deployment, evaluation, models, rows, training
from hedgerow.cli.usage import Parser, complete_output, one_line, printable_warnings, remark
from hedgerow.errors import HedgerowError

_COMMANDS = (
    demo.add_demo,
    training.add_train,
    rows.add_predict,
    evaluation.add_evaluate,
    rows.add_explain,
    models.add_inspect,
    evaluation.add_report,
    models.add_convert,
    deployment.add_serve,
    demo.add_ladder,
    deployment.add_warmup,
)


def build_parser() -> Parser:
    """Build the parser of the whole command line."""
    parser = Parser(
        prog="hedgerow",
        description="Gradient-boosted decision trees in 100% Python.",
        epilog="Start with `hedgerow demo`.",
    )
    parser.add_argument("-V", "--version", action="version", version=f"hedgerow {__version__}")
    commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True
    )
    for add in _COMMANDS:
        add(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    try:
        with complete_output(), printable_warnings():
            options = build_parser().parse_args(arguments)
            options.run(options)
    except KeyboardInterrupt as interrupt:
        return _fail(str(interrupt) or "interrupted", 130)
    except HedgerowError as error:
        return _fail(error, 2)
    except OSError as error:
        reason = error.strerror or str(error)
        return _fail(f"{error.filename}: {reason}" if error.filename else reason, 2)
    except MemoryError:
        return _fail("out of memory: use fewer rows or columns, or a larger machine", 2)
    except Exception as error:
        if os.environ.get("HEDGEROW_DEBUG"):
            raise
        kind = type(error).__name__
        return _fail(f"unexpected {kind}: {error} (HEDGEROW_DEBUG=1 shows where)", 1)
    return 0


def _fail(message: object, code: int) -> int:
    remark(f"hedgerow: {one_line(message)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
