package rule

import "slices"

// onset is where a symptom begins in a series.
type onset struct {
	found      bool
	index      int  // of the leading bad sample
	good, peak int  // indices of the sample before it, and of the worst one
	open       bool // no sample lies before: it may have begun earlier
}

// findOnset dates the symptom: by the alert's threshold where it has one, else
// by the split that explains the values.
func (s series) findOnset(a alert) onset {
	if len(s.samples) == 0 {
		return onset{}
	}
	if a.bounded && !s.counter() {
		return s.byThreshold(a)
	}
	return s.bySplit()
}

// byThreshold takes the run of bad samples that the alert was raised in, or the
// next one after it, and goes back to its beginning. Without a time it takes
// the newest run.
func (s series) byThreshold(a alert) onset {
	bad := func(i int) bool { return s.beyond(i, a) }
	from := a.started - s.step()
	at := -1
	for i := range s.samples {
		if !bad(i) || s.samples[i].at < from {
			continue
		}
		at = i
		if a.started != 0 {
			break
		}
	}
	if at < 0 {
		return onset{}
	}
	for at > 0 && bad(at-1) {
		at--
	}
	return s.onsetAt(at, a.rising())
}

func (s series) beyond(i int, a alert) bool {
	if a.rising() {
		return s.samples[i].v > a.threshold
	}
	return s.samples[i].v < a.threshold
}

func (s series) onsetAt(at int, rising bool) onset {
	o := onset{found: true, index: at, good: max(at-1, 0), peak: at, open: at == 0}
	for i := at + 1; i < len(s.samples); i++ {
		if c := compare(s.samples[i].v, s.samples[o.peak].v); rising && c > 0 || !rising && c < 0 {
			o.peak = i
		}
	}
	return o
}

// bySplit looks for the split into before and after that explains at least half
// of the variance, with medians that differ by half of the smaller one. The
// products are rounded one by one (float64(…)), so that every processor
// computes the same.
func (s series) bySplit() onset {
	n, counter := len(s.samples), s.counter()
	if n < 3 {
		return onset{}
	}
	var sum, squares float64
	for i := range n {
		v := s.level(i, counter)
		sum += v
		squares += float64(v * v)
	}
	total := squares - float64(sum*sum)/float64(n)
	at, best, left := 0, 0.0, 0.0
	for i := 1; i < n; i++ {
		left += s.level(i-1, counter)
		d := left/float64(i) - (sum-left)/float64(n-i)
		if between := float64(float64(d*d)*float64(i)) * float64(n-i) / float64(n); between > best {
			at, best = i, between
		}
	}
	if !(total > 0) || !(best >= total/2) {
		return onset{}
	}
	before, after := s.median(0, at, counter), s.median(at, n, counter)
	if !apart(before, after) {
		return onset{}
	}
	return s.onsetAt(at, after > before)
}

func apart(a, b float64) bool {
	small, large := min(a, b), max(a, b)
	return large > 0 && float64(small*1.5) <= large || large <= 0 && float64(large*1.5) >= small && large != small
}

// median of the samples from..to-1, the lower one, so that it is one of them.
func (s series) median(from, to int, counter bool) float64 {
	values := make([]float64, 0, to-from)
	for i := from; i < to; i++ {
		values = append(values, s.level(i, counter))
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// deviation says that a service's metric is worse since a moment than before.
type deviation struct {
	found        bool
	severity     float64 // by which factor
	from, before sample  // the leading worse sample, and one of the normal ones
	unknown      bool    // nothing to compare with
}

// deviates compares the samples since the onset with those before. To count, the
// median must have moved by a factor (1.5; for an availability by a hundredth)
// and the worst value must lie beyond everything seen before.
func (s series) deviates(since moment) deviation {
	if len(s.samples) == 0 {
		return s.summaryDeviates(since)
	}
	split := 0
	for split < len(s.samples) && s.samples[split].at < since {
		split++
	}
	if split == 0 || split == len(s.samples) {
		return deviation{unknown: true}
	}
	counter, down := s.counter(), falls(s.metric)
	before, after := s.median(0, split, counter), s.median(split, len(s.samples), counter)
	bad := func(a, b float64) bool { return down && a < b || !down && a > b }
	extreme := s.level(0, counter)
	for i := 1; i < split; i++ {
		if v := s.level(i, counter); bad(v, extreme) {
			extreme = v
		}
	}
	severity := factor(before, after, down)
	for i := split; i < len(s.samples); i++ {
		if bad(s.level(i, counter), extreme) && severity > 0 {
			return deviation{found: true, severity: severity, from: s.samples[i], before: s.samples[split-1]}
		}
	}
	return deviation{}
}

// factor returns by how much a level got worse, 0 if not enough to count.
func factor(before, after float64, down bool) float64 {
	switch {
	case down && after < float64(before*0.99):
		return 1 + (before-after)/max(before, 1e-9)
	case !down && before <= 0 && after > 0:
		return 1e6 // from nothing to something
	case !down && before > 0 && after >= float64(before*1.5):
		return after / before
	}
	return 0
}

// summaryDeviates works on the summary of a metric that has too many samples to
// be shown: its change of level, or its extremes.
func (s series) summaryDeviates(since moment) deviation {
	down := falls(s.metric)
	if s.shift != nil && s.shift.at >= since-2*minute {
		if f := factor(s.shift.before.v, s.shift.after.v, down); f > 0 {
			return deviation{found: true, severity: f, from: s.shift.after, before: s.shift.before}
		}
	}
	if s.worst.at != 0 && s.worst.at >= since && s.first.at < since {
		if f := factor(s.first.v, s.worst.v, down); f > 2 || down && f > 0 {
			return deviation{found: true, severity: f, from: s.worst, before: s.first}
		}
	}
	return deviation{unknown: !s.first.there()}
}

// nearlyAll is the share of a resource, in percent, from which it counts as
// used up.
const nearlyAll = 95

// full reports whether a share of a resource reached its limit since a moment
// and not before. It catches what a factor misses: from 70 to 100 percent.
func (s series) full(since moment) deviation {
	if s.unit != "percent" {
		return deviation{}
	}
	before, worst := s.first, s.worst
	for _, p := range s.samples {
		switch {
		case p.at < since && (!before.there() || p.v > before.v):
			before = p
		case p.at >= since && (!worst.there() || p.v > worst.v):
			worst = p
		}
	}
	if !before.there() || before.at >= since || before.v >= nearlyAll || worst.at < since || worst.v < nearlyAll {
		return deviation{}
	}
	return deviation{found: true, severity: worst.v / max(before.v, 1), from: worst, before: before}
}
