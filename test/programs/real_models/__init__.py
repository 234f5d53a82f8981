"""Programs and models of public libraries; importing this makes the libraries importable, offline."""

import os
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "build/models/packages"))
os.environ["HF_HUB_OFFLINE"] = "1"
