package inbound

import (
	"net"
	"testing"
	"time"
)

func TestConnectionsAreBoundedForEachAddress(t *testing.T) {
	inner, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused, accepted := make(chan string, 10), make(chan net.Conn, 10)
	l := LimitConnections(inner, 4, func(address string) { refused <- address })
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := (&net.Dialer{Timeout: time.Minute}).DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	dial()
	dial()
	first, second := <-accepted, <-accepted
	dial()
	if got := <-refused; got != "127.0.0.1" {
		t.Errorf("%q was refused", got)
	}
	_ = first.Close()
	_ = first.Close() // counts only once
	dial()
	third := <-accepted
	dial()
	<-refused
	_ = second.Close()
	_ = third.Close()
	_ = l.Close()
	for range accepted { // it has ended
	}
}
