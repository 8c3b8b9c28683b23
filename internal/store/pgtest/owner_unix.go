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

// owner is the user that servers run as: nil for the one who runs the test. PostgreSQL does
// not run as root.
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
	who, _ := owner() // giveAway has looked at the error
	return &syscall.SysProcAttr{Setpgid: true, Credential: who}
}

// giveAway gives a folder to the owner of servers.
func giveAway(dir string) error {
	who, err := owner()
	if err != nil || who == nil {
		return err
	}
	return os.Chown(dir, int(who.Uid), int(who.Gid))
}

// killGroup kills a process and those it has started.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
