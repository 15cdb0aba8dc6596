# ./optrush docs
# shellcheck shell=bash

docs_usage() {
  cat <<'TEXT'
usage: ./optrush docs [--build FOLDER] [--port PORT]

Builds the documentation strictly (a link without a target is an error) and serves it at http://127.0.0.1:8000.

  --build FOLDER   only build it, into this folder
  --port PORT      serve at another port
TEXT
}

docs_python() { printf '%s\n' "$state/docs/bin/python"; }

# A separate environment: the pages need no torch.
docs_environment() {
  local python own_python=''
  find_python
  logged "$python" -m venv --clear "$state/docs"
  logged "$(docs_python)" -m pip install --disable-pip-version-check --progress-bar off -r "$root/setup/requirements-docs.txt"
  stamp requirements-docs "$(<"$root/setup/requirements-docs.txt")"
}

# Does not return.
docs_command() {
  local folder='' port=8000 words
  while (($#)); do
    case $1 in
      -h | --help) docs_usage && exit ;;
      --build) [[ -n ${2:-} ]] || fail "--build takes a folder"; folder=$(readlink -m "$2") && shift ;;
      --port) [[ ${2:-} =~ ^[0-9]+$ ]] || fail "--port takes a number"; port=$2 && shift ;;
      *) fail "there is no option '$1'" "see ./optrush docs --help" ;;
    esac
    shift
  done
  lock
  { stamp_is requirements-docs "$(<"$root/setup/requirements-docs.txt")" && [[ -x $(docs_python) ]]; } ||
    step "Python packages for the documentation:" docs_environment
  unlock
  cd "$root"
  words=(-m mkdocs)
  if [[ -n $folder ]]; then words+=(build --strict --site-dir "$folder"); else words+=(serve --strict --dev-addr "127.0.0.1:$port"); fi
  NO_MKDOCS_2_WARNING=1 exec "$(docs_python)" "${words[@]}"
}
