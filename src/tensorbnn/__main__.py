"""``python -m tensorbnn``: the command line."""

from tensorbnn.cli import main

raise SystemExit(main())
