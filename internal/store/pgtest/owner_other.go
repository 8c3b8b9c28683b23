//go:build !unix

package pgtest

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }

// giveAway fails: servers are supported on Unix only.
func giveAway(string) error { return errNoPrograms }

func killGroup(int) {}
