"""Python runs this at its start where this folder is on PYTHONPATH."""

import no_network

no_network.install()
