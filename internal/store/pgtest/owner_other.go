//go:build !unix

package pgtest

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }

// giveAway refuses: servers are started on Unix only.
func giveAway(string) error { return errNoPrograms }

func killGroup(int) {}
