package bedrocktest

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"slices"
	"sync"
)

// Record is one request as it came in, and what became of it.
type Record struct {
	Number  int
	Op      Op // empty when the path is no operation
	ModelID string
	Method  string
	Path    string // escaped, with query, as it was sent
	Proto   string // HTTP/1.1 or HTTP/2.0
	Remote  string
	Header  http.Header
	Body    []byte

	Fault  string // the fault that was injected, if any
	Status int    // the status answered; 0 while unanswered and for a reset
}

// journal counts and keeps requests.
type journal struct {
	mu       sync.Mutex
	limit    int
	total    int
	records  []*Record
	arrivals map[[sha256.Size]byte]int
	faults   []Fault
	happened []int // per fault
}

// open numbers a request and says how often its path and body came before.
func (j *journal) open(r *Record) (number, arrival int) {
	key := sha256.Sum256(append([]byte(r.Path+"\n"), r.Body...))
	j.mu.Lock()
	defer j.mu.Unlock()
	number, arrival = j.total, j.arrivals[key]
	j.total++
	j.arrivals[key]++
	r.Number = number
	j.records = append(j.records, r)
	if len(j.records) > j.limit {
		j.records = slices.Delete(j.records, 0, len(j.records)-j.limit)
	}
	return number, arrival
}

func (j *journal) outcome(r *Record, fault string, status int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Fault, r.Status = fault, status
}

// choose finds the fault that happens to req, if one does.
func (j *journal) choose(seed uint64, req Request) *Fault {
	j.mu.Lock()
	faults := slices.Clone(j.faults)
	j.mu.Unlock()
	for i, f := range faults {
		// The predicate is the test's code: it runs without the lock.
		if (f.When != nil && !f.When(req)) || !f.draw(seed, req.Body, req.Arrival) {
			continue
		}
		if j.spend(i, f.Times) {
			return &f
		}
	}
	return nil
}

func (j *journal) spend(i, times int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if times > 0 && j.happened[i] >= times {
		return false
	}
	j.happened[i]++
	return true
}

func (j *journal) inject(faults []Fault) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faults = append(j.faults, faults...)
	j.happened = append(j.happened, make([]int, len(faults))...)
}

// snapshot copies the records, so that a test may keep them.
func (j *journal) snapshot() []Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]Record, len(j.records))
	for i, r := range j.records {
		out[i] = *r
		out[i].Header = r.Header.Clone()
		out[i].Body = bytes.Clone(r.Body)
	}
	return out
}
