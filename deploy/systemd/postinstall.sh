#!/bin/sh
# Creates the service's user. It does not start the service, which must be configured first.
set -e
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers toolyard.conf
elif ! getent passwd toolyard >/dev/null; then
  useradd --system --home-dir /var/lib/toolyard --shell /usr/sbin/nologin toolyard
fi
chown root:toolyard /etc/toolyard
chmod 0770 /etc/toolyard # toolyard.lock is written there
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
