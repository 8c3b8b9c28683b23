package jsvm

import (
	"encoding/binary"
	"os"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pageMap is the file in which the kernel reports the process's pages. It is opened while the
// process can still open files.
var pageMap = sync.OnceValues(func() (*os.File, error) { return os.Open("/proc/self/pagemap") })

// handOut marks the memory as written from now on. The first write to a page causes a fault. If
// there was no fault between two times at which the memory showed its image, the written pages are
// the same as in the last scan: pages stay written even after the image is copied into them.
// (Writes to huge pages would not cause separate faults, but a worker has no huge pages.)
func (m *memory) handOut() {
	if m.clean {
		m.faults, m.clean = pageFaults(), false
	}
}

// unknown is not a valid number of faults.
const unknown = -1

// pageFaults returns the number of page faults in the process.
func pageFaults() int64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // cannot fail
	return u.Minflt + u.Majflt
}

// pageScan asks the kernel which pages in a mapping differ from its file. New kernels return
// ranges; on old kernels, the whole page map is read.
type pageScan struct {
	regions []pageRegion
	entries []byte
	found   []pages
}

// pageRegion and scanRequest mirror the kernel's structures: see PAGEMAP_SCAN in linux/fs.h.
type pageRegion struct{ start, end, categories uint64 }

type scanRequest struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages uint64
	inverted, mask, anyOf, wanted                           uint64
}

const (
	pagemapScan                          = 0xc0606610
	pageIsFile, pagePresent, pageSwapped = 1 << 2, 1 << 3, 1 << 4
	pageIsZero                           = 1 << 5
)

// written returns the written pages, or errManyPages.
func (m *memory) written() ([]pages, error) {
	file, err := pageMap()
	if err != nil {
		return nil, err
	}
	s := &m.pages
	s.regions = slices.Grow(s.regions[:0], manyPages)[:manyPages]
	start := uint64(uintptr(unsafe.Pointer(&m.reserved[0]))) //nolint:gosec // points to memory that does not move
	r := scanRequest{
		start: start, end: start + uint64(m.size), vec: uint64(uintptr(unsafe.Pointer(&s.regions[0]))), vecLen: manyPages, //nolint:gosec // sizes are positive
		inverted: pageIsFile | pageIsZero, mask: pageIsFile | pageIsZero, anyOf: pagePresent | pageSwapped,
	}
	r.size = uint64(unsafe.Sizeof(r))
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), pagemapScan, uintptr(unsafe.Pointer(&r))) //nolint:gosec // points to memory that does not move
	if errno != 0 {
		return m.writtenByMap(file)
	}
	s.found = s.found[:0]
	total := 0
	for _, region := range s.regions[:n] {
		one := pages{start: int(region.start - start), length: int(region.end - region.start)} //nolint:gosec // within the memory
		s.found = append(s.found, one)
		total += one.length / pageSize
	}
	if r.walkEnd != r.end || total > manyPages {
		return nil, errManyPages
	}
	return s.found, nil
}

// writtenByMap reads the whole page map.
func (m *memory) writtenByMap(file *os.File) ([]pages, error) {
	const entry, present, swapped, shared = 8, 1 << 63, 1 << 62, 1 << 61
	s := &m.pages
	s.entries = slices.Grow(s.entries[:0], m.size/pageSize*entry)[:m.size/pageSize*entry]
	at := int64(uintptr(unsafe.Pointer(&m.reserved[0])) / pageSize * entry) //nolint:gosec // an address
	if _, err := file.ReadAt(s.entries, at); err != nil {
		return nil, err
	}
	s.found = s.found[:0]
	for i := 0; i < len(s.entries); i += entry {
		if e := binary.LittleEndian.Uint64(s.entries[i:]); e&(present|swapped) != 0 && e&shared == 0 {
			s.found = append(s.found, pages{start: i / entry * pageSize, length: pageSize})
		}
	}
	if len(s.found) > manyPages {
		return nil, errManyPages
	}
	return s.found, nil
}
