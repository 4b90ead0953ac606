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
	at      moment
	t       string
	v       float64
	raw     string // the number as it was written
	pointer string
}

// shift is a lasting move of the values to another level.
type shift struct {
	at            moment
	t             string
	before, after sample
}

// parseNumber reads a number. One beyond the range of a float64 counts as the
// largest there is.
func parseNumber(n node) (float64, bool) {
	text := n.number()
	if text == "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
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
		if len(s.samples) > 0 || s.shift != nil || s.first.raw != "" {
			all = append(all, s)
		}
	}
	return all
}

// readPoints reads the samples. Those without a time or a number are left out,
// and they are put into the order of time should a patch have changed it.
func (s *series) readPoints(points node) {
	for i, n := range points.items() {
		p := readSample(n)
		if p.at == 0 || p.raw == "" {
			continue
		}
		p.pointer = s.pointer + "/points/" + strconv.Itoa(i)
		s.samples = append(s.samples, p)
	}
	byTime := func(a, b sample) int { return int(min(max(a.at-b.at, -1), 1)) }
	if !slices.IsSortedFunc(s.samples, byTime) {
		slices.SortStableFunc(s.samples, byTime)
	}
}

func readSample(n node) sample {
	t := n.get("t").text()
	v, ok := parseNumber(n.get("v"))
	if !ok {
		return sample{}
	}
	return sample{at: parseMoment(t), t: t, v: v, raw: n.get("v").number()}
}

func (s *series) readSummary(n node) {
	read := func(name string) sample {
		p := readSample(n.get(name))
		p.pointer = s.pointer + "/" + name
		return p
	}
	s.first = read("first")
	s.worst, s.best = read("max"), read("min")
	if falls(s.metric) {
		s.worst, s.best = s.best, s.worst
	}
	c := n.get("change")
	before, ok1 := parseNumber(c.get("before"))
	after, ok2 := parseNumber(c.get("after"))
	at := c.get("at").text()
	if ok1 && ok2 {
		pointer := s.pointer + "/change"
		s.shift = &shift{parseMoment(at), at,
			sample{v: before, raw: c.get("before").number(), pointer: pointer},
			sample{at: parseMoment(at), t: at, v: after, raw: c.get("after").number(), pointer: pointer}}
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
		return p.raw
	case "percent":
		return p.raw + " %"
	}
	return p.raw + " " + s.unit
}

// family is the kind of symptom a metric speaks of, by the words in its name.
// "" is none of those known.
func family(metric string) string {
	m := strings.ToLower(metric)
	for _, f := range [...]struct{ name, words string }{
		{"availability", "availab success uptime"},
		{"error", "error fail fault 5xx exception"},
		{"latency", "latency duration response_time query_time wait_time _seconds _ms"},
		{"resource", "cpu memory usage connections in_use queue saturation utiliz disk threads pool"},
		{"load", "request throughput workload ops rps qps traffic"},
	} {
		for word := range strings.FieldsSeq(f.words) {
			if strings.Contains(m, word) {
				return f.name
			}
		}
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
