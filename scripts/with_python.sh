#!/bin/sh
# Run a script with the first Python 3.11 to 3.13 found: $PYTHON, python3, then the versioned names.
# Each candidate is executed, since a pyenv shim can exist for a version that is not active.
for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
        exec "$candidate" "$@"
    fi
    if [ "$candidate" = "${PYTHON:-}" ]; then
        echo "PYTHON=$PYTHON is not a Python 3.11, 3.12 or 3.13 that runs here." >&2
        exit 1
    fi
done
echo "labsim needs Python 3.11, 3.12 or 3.13 on the PATH. On Debian or Ubuntu: apt-get install python3 python3-venv" >&2
exit 1
