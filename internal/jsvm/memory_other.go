//go:build !linux

package jsvm

import "sync/atomic"

// memory is the linear memory of one VM. On systems that have no copy-on-write mappings, resetting
// it to an image copies the whole image.
type memory struct {
	reserved []byte
	size     int
	budget   *atomic.Int64 // bytes by which all VMs in the process may still grow
}

func newMemory(limit, _ int, budget *atomic.Int64) (*memory, error) {
	return &memory{reserved: make([]byte, limit), budget: budget}, nil
}

// Reallocate implements wazero's LinearMemory. It never moves the memory.
func (m *memory) Reallocate(size uint64) []byte {
	grow := int64(size) - int64(m.size)
	if size > uint64(len(m.reserved)) {
		return nil
	}
	if m.budget.Add(-grow) < 0 {
		m.budget.Add(grow)
		return nil
	}
	m.size = int(size)
	return m.reserved[:size]
}

// Free implements wazero's LinearMemory.
func (m *memory) Free() {
	if m.reserved != nil {
		m.budget.Add(int64(m.size))
		m.reserved = nil
	}
}

// show makes the memory equal to the image.
func (m *memory) show(img *image) error {
	clear(m.reserved[copy(m.reserved[:m.size], img.content):m.size])
	return nil
}

// handOut marks the memory as written from now on.
func (m *memory) handOut() {}

// image is a snapshot of a VM's memory.
type image struct {
	content []byte
	size    int
}

func (m *memory) capture(*image) (*image, error) {
	return &image{append([]byte(nil), m.reserved[:m.size]...), m.size}, nil
}

// bytes returns the memory used by the image itself.
func (img *image) bytes() int { return len(img.content) }

func (img *image) close() {}
