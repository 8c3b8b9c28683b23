//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"sync"
	"syscall"
)

// owner returns the user that servers run as, or nil for the current user. PostgreSQL does not run
// as root.
var owner = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("pgtest: PostgreSQL does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
})

func attributes() *syscall.SysProcAttr {
	who, _ := owner() // giveAway has checked the error
	return &syscall.SysProcAttr{Setpgid: true, Credential: who}
}

// giveAway changes a folder's owner to the user that servers run as.
func giveAway(dir string) error {
	who, err := owner()
	if err != nil || who == nil {
		return err
	}
	return os.Chown(dir, int(who.Uid), int(who.Gid))
}

// killGroup kills a process and its children.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
