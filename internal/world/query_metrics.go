package world

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
)

// Up to maxPoints samples of all metrics together are shown as they are; one
// metric asked for by name may have maxSeries.
const (
	maxPoints = 120
	maxSeries = 500
)

// The bodies below have their fields in the order of canonical JSON.

type metricsBody struct {
	Available []coverage  `json:"available,omitempty"`
	Metrics   []seriesOut `json:"metrics"`
	Note      string      `json:"note,omitempty"`
	Service   string      `json:"service"`
	Status    string      `json:"status"`
	Window    window      `json:"window"`
}

// seriesOut is one metric: its points, or its summary.
type seriesOut struct {
	Change  *levelChange `json:"change,omitempty"`
	First   *point       `json:"first,omitempty"`
	Last    *point       `json:"last,omitempty"`
	Max     *point       `json:"max,omitempty"`
	Metric  string       `json:"metric"`
	Min     *point       `json:"min,omitempty"`
	Points  []point      `json:"points,omitempty"`
	Samples int          `json:"samples,omitempty"`
	Unit    string       `json:"unit"`
}

type point struct {
	T string      `json:"t"`
	V json.Number `json:"v"`
}

// levelChange says from when on the values lie on another level; both medians
// are samples, in their own text.
type levelChange struct {
	After  json.Number `json:"after"`
	At     string      `json:"at"`
	Before json.Number `json:"before"`
}

// coverage says what exists of one metric, whatever the window.
type coverage struct {
	From    string `json:"from"`
	Metric  string `json:"metric"`
	Samples int    `json:"samples"`
	To      string `json:"to"`
	Unit    string `json:"unit"`
}

func (w *World) queryMetrics(a args) Result {
	all := w.metrics[a.service]
	body := metricsBody{Metrics: []seriesOut{}, Service: a.service, Status: StatusOK, Window: a.window}
	if a.metric != "" {
		i := slices.IndexFunc(all, func(s series) bool { return s.metric == a.metric })
		if i < 0 {
			return w.noMetrics(a, body)
		}
		all = all[i : i+1]
	}
	found, total := cut(all, a.window)
	switch {
	case total == 0:
		return w.noMetrics(a, body)
	case a.metric != "" && total > maxSeries:
		found[0].samples = found[0].samples[total-maxSeries:]
		body.Status = StatusTruncated
		body.Note = fmt.Sprintf("the newest %d of %d samples; ask for an earlier window to see the others", maxSeries, total)
	case a.metric == "" && total > maxPoints:
		body.Note = fmt.Sprintf("a summary of %d samples; name a metric to see its samples", total)
		body.Metrics = each(found, summarise)
		return result(body.Status, body)
	}
	body.Metrics = each(found, points)
	return result(body.Status, body)
}

// cut keeps the samples within the window and drops metrics that have none.
func cut(all []series, win window) (found []series, total int) {
	for _, s := range all {
		from := sort.Search(len(s.samples), func(i int) bool { return !s.samples[i].at.Before(win.start) })
		to := sort.Search(len(s.samples), func(i int) bool { return s.samples[i].at.After(win.end) })
		if from < to {
			s.samples = s.samples[from:to]
			found = append(found, s)
			total += to - from
		}
	}
	return found, total
}

// noMetrics says what there is instead.
func (w *World) noMetrics(a args, body metricsBody) Result {
	body.Status = StatusEmpty
	all := w.metrics[a.service]
	known := slices.ContainsFunc(all, func(s series) bool { return s.metric == a.metric })
	switch {
	case len(all) == 0:
		body.Note = fmt.Sprintf("no metrics are recorded for %s", a.service)
	case a.metric != "" && !known:
		body.Note = fmt.Sprintf("%s has no metric %q; it has those under available", a.service, clip(a.metric, maxName))
	default:
		body.Note = "no samples in this window; available says from when to when there are"
	}
	for _, s := range all {
		if a.metric == "" || !known || s.metric == a.metric {
			first, last := s.samples[0], s.samples[len(s.samples)-1]
			body.Available = append(body.Available, coverage{first.time, s.metric, len(s.samples), last.time, s.unit})
		}
	}
	return result(StatusEmpty, body)
}

func each(all []series, f func(series) seriesOut) []seriesOut {
	out := make([]seriesOut, len(all))
	for i, s := range all {
		out[i] = f(s)
	}
	return out
}

func points(s series) seriesOut {
	out := seriesOut{Metric: s.metric, Unit: s.unit, Points: make([]point, len(s.samples))}
	for i, p := range s.samples {
		out.Points[i] = point{p.time, p.value}
	}
	return out
}

func summarise(s series) seriesOut {
	pick := func(better func(a, b float64) bool) *point {
		best := s.samples[0]
		for _, p := range s.samples[1:] {
			if better(p.num, best.num) {
				best = p
			}
		}
		return &point{best.time, best.value}
	}
	first, last := s.samples[0], s.samples[len(s.samples)-1]
	return seriesOut{
		Metric: s.metric, Unit: s.unit, Samples: len(s.samples),
		First: &point{first.time, first.value}, Last: &point{last.time, last.value},
		Min:    pick(func(a, b float64) bool { return a < b }),
		Max:    pick(func(a, b float64) bool { return a > b }),
		Change: findChange(s.samples),
	}
}

// findChange looks for the split into before and after that explains most of
// the variance, and reports it where it explains at least half. That is a hint
// where to look, so it stays silent rather than name noise.
func findChange(samples []sample) *levelChange {
	n := len(samples)
	if n < 4 {
		return nil
	}
	var sum, squares float64
	for _, s := range samples {
		sum += s.num
		squares += s.num * s.num
	}
	total := squares - sum*sum/float64(n)
	at, best, left := 0, 0.0, 0.0
	for i := 1; i < n; i++ {
		left += samples[i-1].num
		d := left/float64(i) - (sum-left)/float64(n-i)
		if between := d * d * float64(i) * float64(n-i) / float64(n); between > best {
			at, best = i, between
		}
	}
	if !(total > 0) || !(best >= total/2) { // also when something is not finite
		return nil
	}
	return &levelChange{At: samples[at].time, Before: median(samples[:at]), After: median(samples[at:])}
}

// median is the lower median, so that it is one of the samples.
func median(samples []sample) json.Number {
	sorted := slices.Clone(samples)
	slices.SortStableFunc(sorted, func(a, b sample) int {
		switch {
		case a.num < b.num:
			return -1
		case a.num > b.num:
			return 1
		}
		return 0
	})
	return sorted[(len(sorted)-1)/2].value
}
