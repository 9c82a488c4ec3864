import sys

from holdfast.commands.main import main

sys.exit(main())
