package rule

// symptom asks for the alert's metric and dates the symptom in it.
func (q *inquiry) symptom() (waiting bool) {
	q.signal = q.talk.about.signal
	q.say = "No measurements yet. Asking for those of " + q.service + "."
	if q.signal != "" {
		q.say = "No measurements yet. Asking for " + q.signal + " of " + q.service + "."
	}
	a, waiting := q.ask(toolMetrics, arg{"service", q.service}, arg{"window", q.window()}, arg{"metric", q.signal})
	if waiting {
		return true
	}
	all := readSeries(a)
	if len(all) == 0 && q.signal != "" {
		why := reason(a, "the result holds no samples")
		q.say = q.signal + " of " + q.service + " brought nothing (" + why + "). Asking for all metrics of the service."
		b, waiting := q.ask(toolMetrics, arg{"service", q.service}, arg{"window", q.window()})
		if waiting {
			return true
		}
		q.note(q.signal+" of "+q.service, why)
		a, all = b, readSeries(b)
	}
	if len(all) == 0 {
		q.note("the metrics of "+q.service, reason(a, "the result holds no samples"))
	}
	if a.truncated() {
		q.note("a part of the metrics of "+q.service, a.why)
	}
	q.date(all)
	return false
}

func reason(a answer, otherwise string) string {
	if a.why != "" {
		return a.why
	}
	return otherwise
}

// window is the time to ask about: the last day where the alert lies in it,
// else the day before the alert and what follows.
func (q *inquiry) window() string {
	started, now := q.talk.about.started, q.talk.now
	if started == 0 || now == 0 || now-started < 20*hour {
		return "24h"
	}
	return (started - day).String() + "/" + min(started+day, now).String()
}

// date finds the onset in the series, or takes the alert's word for it.
func (q *inquiry) date(all []series) {
	about := q.talk.about
	if about.service != q.service {
		about = alert{started: about.started, startedText: about.startedText} // the threshold is another service's
	}
	if s := q.choose(all); s != nil {
		if o := s.findOnset(about); o.found {
			q.dated(*s, o, about)
			return
		}
		if s.metric == q.signal && len(s.samples) > 1 {
			q.denied(*s)
			return
		}
	}
	q.since = symptom{at: about.started, text: about.startedText, step: minute, sentence: "No measurement of " + q.service + " dates the symptom."}
	if about.started != 0 {
		q.since.sentence = "The alert says that it began at " + about.startedText + "; no measurement of " + q.service + " dates it."
	}
}

// choose returns the alert's metric, or among others the one that moved most
// plainly: the leading series with an onset whose name speaks of a symptom.
func (q *inquiry) choose(all []series) *series {
	for i := range all {
		if all[i].metric == q.signal {
			return &all[i]
		}
	}
	if q.signal != "" && family(q.signal) == "" || q.talk.about.bounded {
		return nil // the threshold belongs to a metric that is not here
	}
	for _, want := range [...]string{"availability", "error", "latency"} {
		for i := range all {
			if family(all[i].metric) == want && all[i].findOnset(alert{}).found {
				q.signal = all[i].metric
				return &all[i]
			}
		}
	}
	return nil
}

func (q *inquiry) dated(s series, o onset, about alert) {
	bad, good, peak := s.samples[o.index], s.samples[o.good], s.samples[o.peak]
	q.since = symptom{at: bad.at, text: bad.t(), step: s.step(), seen: true}
	what := s.metric + " of " + q.service
	switch {
	case o.open:
		q.since.sentence = what + " is bad from the beginning of the window, " + bad.t() + ", on (" + s.with(bad) + ")."
		if about.started > bad.at {
			q.since.at, q.since.text = about.started, about.startedText
		}
	default:
		q.since.sentence = what + " went from " + s.with(good) + " (" + good.t() + ") to " + s.with(bad) + " at " + bad.t()
		if peak.at != bad.at {
			q.since.sentence += " and was worst at " + peak.t() + " with " + s.with(peak)
		}
		q.since.sentence += "."
	}
	for _, i := range []int{o.good, o.index, o.peak} {
		q.since.evidence = append(q.since.evidence, s.address(s.samples[i]))
	}
	q.cite(q.since.evidence...)
}

// denied takes note of a series that contradicts the alert.
func (q *inquiry) denied(s series) {
	last := s.samples[len(s.samples)-1]
	q.since = symptom{at: q.talk.about.started, text: q.talk.about.startedText, step: s.step(), denied: true}
	q.since.sentence = "The samples of " + s.metric + " of " + q.service + " do not show what the alert says (the last one is " + s.with(last) + " at " + last.t() + ")."
	q.cite(s.source.at(s.pointer))
}
