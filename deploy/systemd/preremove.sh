#!/bin/sh
set -e
case "$1" in
  remove | 0) # an upgrade keeps the service
    if [ -d /run/systemd/system ]; then
      systemctl disable --now toolyard.service || true
    fi
    ;;
esac
