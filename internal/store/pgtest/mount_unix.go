//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// mounted is an in-memory disk. Its shell unmounts it when the test process ends for any reason.
type mounted struct {
	keeper *program
	say    io.WriteCloser
}

const unmount = `mount -t tmpfs -o size="$2",mode=0755 tmpfs "$1" || exit
echo mounted
cat >/dev/null
until umount "$1" || [ "$((n += 1))" -gt 50 ]; do sleep 0.1; done
rmdir "$1"`

func mount(dir string, megabytes int) (io.Closer, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root can mount")
	}
	cmd := command(context.Background(), "/bin/sh", "-c", unmount, "sh", dir, fmt.Sprint(megabytes, "m"))
	cmd.SysProcAttr.Credential = nil
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	m := &mounted{cmd, in}
	if n, _ := out.Read(make([]byte, 16)); n == 0 {
		return nil, errors.Join(errors.New("mount refused"), m.Close())
	}
	return m, nil
}

func (m *mounted) Close() error {
	return errors.Join(m.say.Close(), m.keeper.Wait())
}
