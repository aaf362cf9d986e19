"""``python -m sinter`` is the command of the wheel."""

from ._command import main

main()
