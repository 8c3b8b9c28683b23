//go:build !linux

package subprocess

import (
	"os"
	"os/exec"
)

func startInGroup(cmd *exec.Cmd) error { return cmd.Start() }

func bound(int, Limits) error { return nil }

func killGroup(p *os.Process) { _ = p.Kill() }

func endGroup(p *os.Process) { _ = p.Signal(os.Interrupt) }
