"""`python -m ttlproxy`."""

from ttlproxy.cli import main

raise SystemExit(main())
