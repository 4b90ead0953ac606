# Sourced by install and run: where each language's packages live and what its
# runtime has to be.
#
# Every language has a folder under $CLIENTS_HOME whose name carries a digest of
# what decides its contents, so a changed lock file means a new folder, several
# checkouts can share one home, and a folder that exists is complete: it is
# built beside its place and moved there last.

clients=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${CLIENTS_HOME:-${XDG_CACHE_HOME:-${HOME:-${TMPDIR:-/tmp}}/.cache}/investigator-clients}

digest() {
  if command -v sha256sum >/dev/null; then cat "$@" | sha256sum; else cat "$@" | shasum -a 256; fi | cut -c1-16
}

# place LANGUAGE prints the language's folder.
place() {
  case $1 in
    js) echo "$home/js-$(digest "$clients/js/package-lock.json")" ;;
    py) echo "$home/py-$( (python3 --version && cat "$clients/py/requirements.txt") 2>&1 | digest -)" ;;
    # Of go.mod only what this client is built from: the project's other
    # dependencies come and go.
    go) echo "$home/go-$( (grep -oE 'github.com/aws/[^ ]+ v[^ ]+' "$clients/../../go.mod" && cat "$clients"/go/*.go) | digest -)" ;;
  esac
}

# missing LANGUAGE prints why its clients cannot run here, or nothing.
missing() {
  case $1 in
    js)
      if ! command -v node >/dev/null; then echo 'no node on PATH'
      elif ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
        echo "node $(node --version) is too old, expected 20 or newer"
      elif ! command -v npm >/dev/null; then echo 'no npm on PATH'; fi ;;
    py)
      if ! command -v python3 >/dev/null; then echo 'no python3 on PATH'
      elif ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        echo "$(python3 --version) is too old, expected 3.11 or newer"
      elif ! python3 -c 'import venv, ensurepip' 2>/dev/null; then echo 'python3 has no venv module'; fi ;;
    go)
      command -v go >/dev/null || echo 'no go on PATH' ;;
  esac
}

# skip WHAT REASON: loud, and a failure where every client is mandatory.
skip() {
  echo "SKIP $1: $2" >&2
  if [ "${CLIENTS_REQUIRED:-}" = 1 ]; then
    echo "$1: CLIENTS_REQUIRED=1, so a skipped client is a failure" >&2
    return 1
  fi
  return 77
}
