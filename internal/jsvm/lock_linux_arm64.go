package jsvm

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

var archCalls []int

var archReadCalls = []int{unix.SYS_FSTATAT}
