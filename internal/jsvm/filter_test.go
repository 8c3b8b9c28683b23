//go:build linux && (amd64 || arm64)

package jsvm

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A locked-down process cannot perform forbidden operations.
func TestFilterIsInForce(t *testing.T) {
	switch os.Getenv("JSVM_TEST_LOCKED") {
	case "worker":
		tryWhatIsForbidden(lockDown, false)
	case "compiler":
		tryWhatIsForbidden(lockDownCompiler, true)
	}
	for _, kind := range []string{"worker", "compiler"} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestFilterIsInForce$")
		cmd.Env = append(os.Environ(), "JSVM_TEST_LOCKED="+kind)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "all refused") {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
	}
}

func tryWhatIsForbidden(lock func() error, mayRead bool) {
	say := func(s string) { _, _ = os.Stdout.WriteString(s + "\n") }
	if err := lock(); err != nil {
		say(err.Error())
		os.Exit(1)
	}
	if pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0); errno != unix.EPERM {
		if pid == 0 {
			_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		say("a process can be forked")
		os.Exit(1)
	}
	tries := map[string]error{
		"open":    second(os.Open("/etc/passwd")),
		"create":  second(os.Create(os.TempDir() + "/jsvm-filter-test")),
		"socket":  second(net.Dial("tcp", "127.0.0.1:1")),
		"unix":    second(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)),
		"execute": exec.Command("/bin/true").Run(),
		"kill":    unix.Kill(1, 0),
		"signal":  unix.Tgkill(1, 1, 0),
		"code":    second(unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)),
		"ptrace":  unix.PtraceAttach(1),
		"mount":   unix.Mount("", "/", "", 0, ""),
	}
	if _, err := os.Open("/etc/passwd"); mayRead && err == nil {
		delete(tries, "open")
	}
	for name, err := range tries {
		if !errors.Is(err, unix.EPERM) && !strings.Contains(err.Error(), "not permitted") {
			say(name + " is not refused: " + err.Error())
			os.Exit(1)
		}
	}
	say("all refused")
	os.Exit(0)
}

func second[T any](_ T, err error) error {
	if err == nil {
		return errors.New("it works")
	}
	return err
}
