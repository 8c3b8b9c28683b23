package hyperliquid

import "encoding/binary"

// packer encodes MessagePack, with each value in its shortest form. The venue hashes an action's
// encoding, so the members of a map must be in the venue's order. A library that sorts keys or
// widens strings would produce an invalid signature.
type packer struct{ out []byte }

func (p *packer) mapOf(members int) { p.header(0x80, 0xde, members) }

func (p *packer) arrayOf(items int) { p.header(0x90, 0xdc, items) }

func (p *packer) header(fix, wide byte, n int) {
	if n < 16 {
		p.out = append(p.out, fix|byte(n)) //nolint:gosec // G115: less than 16
		return
	}
	p.out = binary.BigEndian.AppendUint16(append(p.out, wide), uint16(n)) //nolint:gosec // G115: actions have at most maxOrders items
}

// text writes a string of at most 255 bytes, such as an address, a decimal or a name.
func (p *packer) text(s string) {
	if len(s) < 32 {
		p.out = append(p.out, 0xa0|byte(len(s))) //nolint:gosec // G115: less than 32
	} else {
		p.out = append(p.out, 0xd9, byte(len(s))) //nolint:gosec // G115: see above
	}
	p.out = append(p.out, s...)
}

func (p *packer) uint(n uint64) {
	switch {
	case n < 0x80:
		p.out = append(p.out, byte(n))
	case n < 1<<8:
		p.out = append(p.out, 0xcc, byte(n))
	case n < 1<<16:
		p.out = binary.BigEndian.AppendUint16(append(p.out, 0xcd), uint16(n))
	case n < 1<<32:
		p.out = binary.BigEndian.AppendUint32(append(p.out, 0xce), uint32(n))
	default:
		p.out = binary.BigEndian.AppendUint64(append(p.out, 0xcf), n)
	}
}

func (p *packer) bool(b bool) {
	if b {
		p.out = append(p.out, 0xc3)
	} else {
		p.out = append(p.out, 0xc2)
	}
}

// member writes a key and a text value.
func (p *packer) member(key, value string) {
	p.text(key)
	p.text(value)
}
