package rule

import (
	"slices"
	"strconv"
	"strings"
)

// series is one metric of one service as a result shows it: its samples, or a
// summary of them.
type series struct {
	metric, unit string
	samples      []sample
	source       answer
	pointer      string // of the metric in the result
	shift        *shift // of a summary
	first, worst sample // of a summary: the extremes that there are
	best         sample
}

type sample struct {
	at     moment
	time   node
	v      float64
	number node
	part   string // of the metric it stands in
	index  int    // in that part, -1 if it is no list
}

// t returns the time as it was written.
func (p sample) t() string { return p.time.text() }

// raw returns the number as it was written.
func (p sample) raw() string { return string(p.number.number()) }

// there reports whether the sample is one.
func (p sample) there() bool { return p.number.there() }

// address returns the evidence address of a sample.
func (s *series) address(p sample) string {
	pointer := s.pointer + p.part
	if p.index >= 0 {
		pointer += "/" + strconv.Itoa(p.index)
	}
	return s.source.at(pointer)
}

// shift is a lasting move of the values to another level.
type shift struct {
	at            moment
	before, after sample
}

// parseNumber reads a number. One beyond the range of a float64 counts as the
// largest there is.
func parseNumber(n node) (float64, bool) {
	written := n.number()
	if len(written) == 0 {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(written), 64)
	if err != nil && v == 0 {
		return 0, false
	}
	return min(max(v, -1e300), 1e300), true
}

// readSeries reads the metrics of a result of query_metrics.
func readSeries(a answer) []series {
	var all []series
	for i, n := range a.body.get("metrics").items() {
		s := series{metric: n.get("metric").text(), unit: n.get("unit").text(), source: a, pointer: "/metrics/" + strconv.Itoa(i)}
		s.readPoints(n.get("points"))
		if len(s.samples) == 0 {
			s.readSummary(n)
		}
		if len(s.samples) > 0 || s.shift != nil || s.first.there() {
			all = append(all, s)
		}
	}
	return all
}

// readPoints reads the samples. Those without a time or a number are left out,
// and they are put into the order of time should a patch have changed it.
func (s *series) readPoints(points node) {
	s.samples = make([]sample, 0, points.count())
	for i, n := range points.items() {
		p := readSample(n)
		if p.at == 0 || !p.there() {
			continue
		}
		p.part, p.index = "/points", i
		s.samples = append(s.samples, p)
	}
	byTime := func(a, b sample) int { return int(min(max(a.at-b.at, -1), 1)) }
	if !slices.IsSortedFunc(s.samples, byTime) {
		slices.SortStableFunc(s.samples, byTime)
	}
}

func readSample(n node) sample {
	t, number := n.get("t"), n.get("v")
	v, ok := parseNumber(number)
	if !ok {
		return sample{}
	}
	return sample{at: parseMoment(t.inside()), time: t, v: v, number: number}
}

func (s *series) readSummary(n node) {
	read := func(name string) sample {
		p := readSample(n.get(name))
		p.part, p.index = "/"+name, -1
		return p
	}
	s.first = read("first")
	s.worst, s.best = read("max"), read("min")
	if falls(s.metric) {
		s.worst, s.best = s.best, s.worst
	}
	c := n.get("change")
	t, at := c.get("at"), parseMoment(c.get("at").inside())
	before, ok1 := parseNumber(c.get("before"))
	after, ok2 := parseNumber(c.get("after"))
	if ok1 && ok2 {
		s.shift = &shift{at,
			sample{v: before, number: c.get("before"), part: "/change", index: -1},
			sample{at: at, time: t, v: after, number: c.get("after"), part: "/change", index: -1}}
	}
}

// step is the usual distance between two samples, the median.
func (s series) step() moment {
	if len(s.samples) < 2 {
		return minute
	}
	gaps := make([]moment, len(s.samples)-1)
	for i := range gaps {
		gaps[i] = s.samples[i+1].at - s.samples[i].at
	}
	slices.Sort(gaps)
	return max(gaps[len(gaps)/2], second)
}

// with returns a number with its unit, as written.
func (s series) with(p sample) string {
	switch s.unit {
	case "", "count":
		return p.raw()
	case "percent":
		return p.raw() + " %"
	}
	return p.raw() + " " + s.unit
}

// family is the kind of symptom a metric speaks of, by the words in its name.
// "" is none of those known.
func family(metric string) string {
	m := strings.ToLower(metric)
	switch {
	case containsAny(m, "availab", "success", "uptime"):
		return "availability"
	case containsAny(m, "error", "fail", "fault", "5xx", "exception"):
		return "error"
	case containsAny(m, "latency", "duration", "response_time", "query_time", "wait_time", "_seconds", "_ms"):
		return "latency"
	case containsAny(m, "cpu", "memory", "usage", "connections", "in_use", "queue", "saturation", "utiliz", "disk", "threads", "pool"):
		return "resource"
	case containsAny(m, "request", "throughput", "workload", "ops", "rps", "qps", "traffic"):
		return "load"
	}
	return ""
}

// falls reports whether small values of a metric are the bad ones.
func falls(metric string) bool { return family(metric) == "availability" }

// counter reports whether a metric counts up for ever, so that its rate is what
// matters.
func (s series) counter() bool {
	if !strings.HasSuffix(s.metric, "_total") || len(s.samples) < 3 {
		return false
	}
	return slices.IsSortedFunc(s.samples, func(a, b sample) int { return compare(a.v, b.v) })
}

// level returns the value of sample i that counts: for a counter, how much was
// added since the sample before.
func (s series) level(i int, counter bool) float64 {
	if !counter {
		return s.samples[i].v
	}
	if i == 0 {
		return s.samples[1].v - s.samples[0].v
	}
	return s.samples[i].v - s.samples[i-1].v
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
