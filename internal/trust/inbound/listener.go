package inbound

import (
	"net"
)

// LimitConnections bounds how many connections of a listener are open at once: at most
// maximum in all, and at most half of that from one address, so that one host, or one proxy in
// front of many, cannot take all of them. A connection over the bound is closed at once.
func LimitConnections(l net.Listener, maximum int, onRefuse func(address string)) net.Listener {
	return &boundListener{Listener: l, shares: NewShares(maximum, maximum/2), onRefuse: onRefuse}
}

type boundListener struct {
	net.Listener
	shares   *Shares
	onRefuse func(address string)
}

// Accept implements net.Listener.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		origin := CallerAddress(conn.RemoteAddr().String())
		if release, v := l.shares.Take(origin, 1); v == Granted {
			return &boundConn{Conn: conn, release: release}, nil
		}
		_ = conn.Close()
		l.onRefuse(origin)
	}
}

type boundConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
