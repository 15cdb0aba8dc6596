# Messages, steps and stamps. Everything goes to stderr: stdout belongs to the program that is started in the end.
# shellcheck shell=bash

state=$root/.optrush
log=$state/setup.log

say() { printf 'optrush: %s\n' "$*" >&2; }
# fail WHAT [HINT]: ends the set-up with a message.
fail() {
  printf 'optrush: %s\n' "$1" >&2
  [[ -z ${2:-} ]] || printf '  hint: %s\n' "$2" >&2
  exit 1
}

on_terminal() { [[ -t 2 && ${TERM:-dumb} != dumb ]]; }

duration() {
  if (($1 < 60)); then printf '%d s' "$1"; else printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); fi
}

# Seconds between two lines of progress without a terminal.
: "${OPTRUSH_TELL_EVERY:=60}"

# Copies a command's output into the log, and shows its newest line: at once on a terminal, otherwise once a minute.
progress() {
  local line part='' newest='' width=${COLUMNS:-80} told=$SECONDS status=0
  until ((status == 1)); do
    status=0
    IFS= read -r -t 1 line || status=$?
    part+=$line # the first part of a line, when the wait ended before the line
    if ((status == 0)) || [[ $status == 1 && -n $part ]]; then
      printf '%s\n' "$part" >>"$log"
      newest=${part//[$'\t\r']/ } part=''
      if on_terminal; then printf '\r\033[K  %.*s' $((width - 4)) "$newest" >&2; fi
    fi
    if ! on_terminal && ((SECONDS - told >= OPTRUSH_TELL_EVERY)); then
      printf '  after %s: %.*s\n' "$(duration "$SECONDS")" 100 "$newest" >&2
      told=$SECONDS
    fi
  done
  if on_terminal; then printf '\r\033[K' >&2; fi
}

# logged COMMAND...: prints nothing if the command succeeds, and the end of its output if it fails.
logged() {
  local before=0
  [[ ! -f $log ]] || before=$(wc -l <"$log")
  printf -- '--- %s\n' "$*" >>"$log"
  if ! "$@" 2>&1 | progress; then
    tail -n "+$((before + 2))" "$log" | tail -n 40 >&2
    fail "this command failed: $*" "the whole output is in $log; once the cause is gone, the same start continues from here"
  fi
}

steps_taken=()
# step LABEL COMMAND...: one part of the set-up, with the time that it took.
step() {
  local label=$1 start=$SECONDS
  shift
  "$@"
  steps_taken+=("$label $(duration $((SECONDS - start)))")
  say "${steps_taken[-1]}"
}

# A stamp is a copy of the inputs of a step. It is current as long as the inputs are the same.
stamp_is() { [[ -f $state/$1.stamp && $(<"$state/$1.stamp") == "$2" ]]; }
stamp() {
  printf '%s\n' "$2" >"$state/$1.stamp.tmp"
  mv "$state/$1.stamp.tmp" "$state/$1.stamp"
}

# Names in a list file, without its comments.
listed() {
  local line
  while IFS= read -r line; do
    line=${line%%#*}
    [[ -z ${line// /} ]] || printf '%s\n' "$line"
  done <"$1"
}
