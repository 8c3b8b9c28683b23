package inbound

import (
	"net"
)

// LimitConnections limits a listener's open connections. It allows maximum in total, and half of
// that from one address, so that one host or proxy cannot use all of them. Connections over the
// limit are closed immediately.
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
