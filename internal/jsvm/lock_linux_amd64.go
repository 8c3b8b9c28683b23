package jsvm

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

var archCalls = []int{unix.SYS_EPOLL_WAIT, unix.SYS_ARCH_PRCTL}

var archReadCalls = []int{unix.SYS_NEWFSTATAT}
