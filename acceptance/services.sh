#!/usr/bin/env bash
# Starts the PostgreSQL server for the tests, and prints its settings for the shell:
#
#   eval "$(acceptance/services.sh)"    start, or use the running server
#   acceptance/services.sh stop         stop, and delete the data
#
# It listens on a free loopback port, trusts all local clients, and does not wait for the disk,
# because its data need not survive a crash.
set -euo pipefail
cd "$(dirname "$0")/.."

state=.services # folder with the path of the data and the port

as_owner() { # PostgreSQL does not run as root
  if ((EUID == 0)); then
    setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
  else
    "$@"
  fi
}

program() { # prints the folder that contains initdb: the one in PATH, or else Debian's
  local initdb
  initdb=$(command -v initdb || ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -n 1)
  [[ -n $initdb ]] || { echo "there is no PostgreSQL here: install postgresql" >&2; exit 1; }
  echo "$(dirname "$(readlink -f "$initdb")")/$1"
}

free_port() { # prints a port on which no server listens
  local port
  for ((;;)); do
    port=$((20000 + RANDOM % 10000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}

running() { [[ -f $state/port ]] && as_owner "$(program pg_ctl)" status -D "$(<"$state/folder")/data" >/dev/null; }

stop() {
  if running; then
    as_owner "$(program pg_ctl)" stop -D "$(<"$state/folder")/data" -m immediate >/dev/null
  fi
  if [[ -f $state/folder ]]; then rm -rf "$(<"$state/folder")"; fi
  rm -rf "$state"
}

start() {
  local dir port
  stop
  dir=$(mktemp -d "${TMPDIR:-/tmp}/toolyard-services-XXXXXX") # PostgreSQL's user may have no access to the checkout
  mkdir "$state"
  echo '*' >"$state/.gitignore"
  echo "$dir" >"$state/folder"
  if ((EUID == 0)); then chown postgres: "$dir"; fi
  as_owner "$(program initdb)" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C --no-instructions >/dev/null
  port=$(free_port)
  as_owner "$(program pg_ctl)" start -w -D "$dir/data" -l "$dir/log" \
    -o "-c port=$port -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=500 -c fsync=off" >/dev/null
  echo "$port" >"$state/port"
}

case ${1:-start} in
start)
  running || start
  echo "export TOOLYARD_TEST_POSTGRES='postgres://postgres@127.0.0.1:$(<"$state/port")/postgres?sslmode=disable'"
  ;;
stop) stop ;;
*) echo "usage: acceptance/services.sh [start|stop]" >&2; exit 2 ;;
esac
