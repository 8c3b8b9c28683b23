package jsvm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memory is the linear memory of one VM: a reserved address range that starts with a copy-on-write
// mapping of an image. The kernel reports which pages were written, so resetting the memory to the
// image copies only those pages, and the next run finds them already mapped.
type memory struct {
	reserved []byte
	size     int
	shown    *image
	free     int           // bytes that are shared with all other VMs and don't count
	budget   *atomic.Int64 // bytes by which all VMs in the process may still grow
	pages    pageScan      // finds written pages
	clean    bool          // shows its image and is not in use
	faults   int64         // the process's page faults when the clean memory was handed out, or unknown
}

// newMemory reserves an address range. Memory is only allocated when it is touched.
func newMemory(limit, free int, budget *atomic.Int64) (*memory, error) {
	b, err := unix.Mmap(-1, 0, limit, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve memory: %w", err)
	}
	return &memory{reserved: b, free: free, budget: budget}, nil
}

// Reallocate implements wazero's LinearMemory. It never moves the memory.
func (m *memory) Reallocate(size uint64) []byte {
	grow := m.cost(int(size)) - m.cost(m.size) //nolint:gosec // far below 2^63
	if size > uint64(len(m.reserved)) {
		return nil
	}
	if m.budget.Add(-grow) < 0 {
		m.budget.Add(grow)
		return nil
	}
	m.size = int(size) //nolint:gosec // at most len(m.reserved)
	return m.reserved[:size]
}

// cost returns the part of the budget that a size uses.
func (m *memory) cost(size int) int64 { return int64(max(0, size-m.free)) }

// Free implements wazero's LinearMemory.
func (m *memory) Free() {
	if m.reserved != nil {
		m.budget.Add(m.cost(m.size))
		_ = unix.Munmap(m.reserved)
		m.reserved = nil
	}
}

// show makes the memory equal to the image. Pages are copied only when they are written.
func (m *memory) show(img *image) error {
	if m.shown == img {
		err := m.copyBack(img)
		m.clean = err == nil
		return err
	}
	m.clean = false
	m.shown, m.faults, m.pages.found = nil, unknown, m.pages.found[:0]
	if err := m.place(-1, 0, 0, m.size); err != nil {
		return err
	}
	for _, layer := range img.layers() {
		for _, r := range layer.runs {
			if err := m.place(int(layer.file.Fd()), r.file, r.start, r.length); err != nil {
				return err
			}
		}
	}
	m.shown, m.clean = img, true
	return nil
}

// manyPages is the number of written pages above which discarding them is cheaper than copying.
const manyPages = 1024

// copyBack undoes all writes since the image was shown.
func (m *memory) copyBack(img *image) error {
	written, err := m.pages.found, error(nil)
	faults := m.faults
	m.faults = unknown
	if len(written) == 0 || faults != pageFaults() {
		if written, err = m.written(); err != nil {
			m.pages.found = m.pages.found[:0]
			return unix.Madvise(m.reserved[:m.size], unix.MADV_DONTNEED)
		}
	}
	for _, r := range written {
		undone := copy(m.reserved[r.start:r.start+r.length], img.flat[min(r.start, len(img.flat)):])
		clear(m.reserved[r.start+undone : r.start+r.length])
	}
	return nil
}

var errManyPages = errors.New("too many pages were written")

// place maps part of a file over part of the memory, or maps nothing if fd is -1.
func (m *memory) place(fd int, offset int64, start, length int) error {
	flags := unix.MAP_PRIVATE | unix.MAP_FIXED | unix.MAP_NORESERVE
	if fd < 0 {
		flags |= unix.MAP_ANON
	}
	_, err := unix.MmapPtr(fd, offset, unsafe.Pointer(&m.reserved[start]), uintptr(length), unix.PROT_READ|unix.PROT_WRITE, flags) //nolint:gosec // points to memory that does not move
	if err != nil {
		return fmt.Errorf("map image: %w", err)
	}
	return nil
}

// image is a snapshot of a VM's memory: the pages that differ from the base image.
type image struct {
	over *image
	file *os.File // an unnamed file
	flat []byte   // the whole image, for comparisons
	runs []pages
	size int
}

// pages is a part of the memory that is stored in an image's file.
type pages struct {
	start, length int
	file          int64 // offset in the file
}

func (img *image) layers() []*image {
	if img.over == nil {
		return []*image{img}
	}
	return append(img.over.layers(), img)
}

// pageSize is the unit of comparison. fewPages is the number of equal pages that may be included in
// a range, because an additional mapping costs more than copying them.
const (
	pageSize    = 4096
	fewPages    = 4
	maxMappings = 256
)

// capture creates an image of the memory as a layer on top of another image.
func (m *memory) capture(over *image) (*image, error) {
	fd, err := unix.MemfdCreate("toolyard-image", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	img := &image{over: over, file: os.NewFile(uintptr(fd), "image"), size: m.size}
	var before []byte
	if over != nil {
		before = over.flat
	}
	for gap := fewPages; ; gap *= 4 { // each range is a mapping, and the number of mappings per process is limited
		if img.runs = differences(before, m.reserved[:m.size], gap); len(img.runs) <= maxMappings {
			break
		}
	}
	for i := range img.runs {
		r := &img.runs[i]
		if i > 0 {
			r.file = img.runs[i-1].file + int64(img.runs[i-1].length)
		}
		if _, err := img.file.WriteAt(m.reserved[r.start:r.start+r.length], r.file); err != nil {
			_ = img.file.Close()
			return nil, fmt.Errorf("image: %w", err)
		}
	}
	if err := img.view(); err != nil {
		_ = img.file.Close()
		return nil, err
	}
	return img, nil
}

// view maps the whole image for comparisons.
func (img *image) view() error {
	m, err := newMemory(img.size, 0, &atomic.Int64{})
	if err != nil {
		return err
	}
	m.size, img.flat = img.size, m.reserved
	return m.show(img)
}

var zeroPage [pageSize]byte

// differences returns the pages in b that differ from a, or from zero beyond the end of a.
func differences(a, b []byte, gap int) (runs []pages) {
	for at := 0; at < len(b); at += pageSize {
		before := zeroPage[:]
		if at < len(a) {
			before = a[at : at+pageSize]
		}
		if bytes.Equal(before, b[at:at+pageSize]) {
			continue
		}
		if n := len(runs); n > 0 && at-(runs[n-1].start+runs[n-1].length) <= gap*pageSize {
			runs[n-1].length = at + pageSize - runs[n-1].start
			continue
		}
		runs = append(runs, pages{start: at, length: pageSize})
	}
	return runs
}

// bytes returns the memory used by the image itself.
func (img *image) bytes() (n int) {
	for _, r := range img.runs {
		n += r.length
	}
	return n
}

// close releases the image. Memory that shows it stays valid.
func (img *image) close() {
	_ = img.file.Close()
	_ = unix.Munmap(img.flat)
}
