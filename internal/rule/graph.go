package rule

import (
	"slices"
	"strings"

	"investigator/internal/verdict"
)

// place is a service on the way down the call graph.
type place struct {
	name    string
	calls   []string
	address string // of its record in the graph
	depth   int    // how many calls it lies behind the alert's service

	series series // the metric that shows the symptom
	dev    deviation
	all    []series
	sick   bool // dev was found
}

// descend walks from the service of the alert to those it calls, as far as they
// show the symptom, and concludes about the deepest one.
func (q *inquiry) descend() (verdict.Verdict, bool) {
	graph, waiting := q.graph()
	if waiting {
		return verdict.Verdict{}, true
	}
	sick, waiting := q.walk(graph)
	if waiting {
		return verdict.Verdict{}, true
	}
	culprit := deepest(sick)
	if culprit == nil {
		return q.fromHint(), false
	}
	q.say = q.sentence(*culprit) + " It is the deepest service that shows the symptom. Asking for its changes."
	return q.judge(*culprit, sick)
}

// graph asks who calls whom. Without the tool every other service is taken for
// one that the alert's service calls.
func (q *inquiry) graph() (map[string]*place, bool) {
	q.say = q.since.sentence + " Changes and logs of " + q.service + " do not explain it. Asking which services it calls."
	a, waiting := q.ask(toolServices)
	if waiting {
		return nil, true
	}
	graph := map[string]*place{}
	for i, n := range a.body.get("services").items() {
		if name := n.get("name").text(); name != "" {
			graph[name] = &place{name: name, calls: n.get("calls").strings(), address: a.at("/services/" + itoa(i))}
		}
	}
	if len(graph) > 0 {
		return graph, false
	}
	q.note("the call graph", reason(a, "it is empty"))
	root := &place{name: q.service}
	graph[q.service] = root
	for _, name := range q.talk.services {
		if name != q.service {
			graph[name] = &place{name: name}
			root.calls = append(root.calls, name)
		}
	}
	return graph, false
}

// walk asks for the metrics of callees, level by level, and returns the
// services that show the symptom. Of each level all are asked in one turn.
func (q *inquiry) walk(graph map[string]*place) (sick []*place, waiting bool) {
	visited := map[string]bool{q.service: true}
	level := []string{q.service}
	for depth := 1; len(level) > 0; depth++ {
		next := q.callees(graph, level, visited)
		if len(next) == 0 {
			break
		}
		q.say = q.since.sentence + " Asking for the metrics of " + strings.Join(next, ", ") + "."
		if q.visit(graph, next) {
			return nil, true
		}
		level = nil
		for _, name := range next {
			graph[name].depth = depth
			if graph[name].sick {
				level, sick = append(level, name), append(sick, graph[name])
			}
		}
	}
	return sick, false
}

// callees are the services that a level calls and that were not visited yet, at
// most as many as one turn can ask for.
func (q *inquiry) callees(graph map[string]*place, level []string, visited map[string]bool) []string {
	var next []string
	for _, name := range level {
		if graph[name] == nil {
			continue
		}
		for _, callee := range graph[name].calls {
			if visited[callee] {
				continue
			}
			visited[callee] = true
			if graph[callee] == nil {
				graph[callee] = &place{name: callee}
			}
			next = append(next, callee)
		}
	}
	slices.Sort(next)
	if len(next) > maxCalls {
		q.note("the metrics of "+strings.Join(next[maxCalls:], ", "), "too many services at once")
		next = next[:maxCalls]
	}
	return next
}

// visit asks for the metrics of each service and judges them.
func (q *inquiry) visit(graph map[string]*place, names []string) (waiting bool) {
	for _, name := range names {
		a, wait := q.ask(toolMetrics, arg{"service", name}, arg{"window", q.window()})
		if wait {
			waiting = true
			continue
		}
		p := graph[name]
		p.all = readSeries(a)
		if len(p.all) == 0 {
			q.note("the metrics of "+name, reason(a, "the result holds no samples"))
		}
		q.examine(p)
	}
	return waiting
}

// examine looks for the alert's kind of symptom in a service: in the metric of
// the same name, else in those of the same family, and where it has none of
// that kind in what speaks of a symptom at all.
func (q *inquiry) examine(p *place) {
	if q.since.at == 0 {
		return
	}
	want := family(q.signal)
	for _, fits := range []func(string) bool{
		func(m string) bool { return m == q.signal },
		func(m string) bool { return want != "" && want != "load" && family(m) == want },
		func(m string) bool {
			return family(m) == "availability" || family(m) == "error" || family(m) == "latency"
		},
	} {
		had := false
		for _, s := range p.all {
			if !fits(s.metric) {
				continue
			}
			d := s.deviates(q.since.at)
			had = had || !d.unknown
			if d.found && d.severity > p.dev.severity {
				p.series, p.dev, p.sick = s, d, true
			}
		}
		if had {
			return
		}
	}
}

// deepest returns the sick service that calls no sick one; of several the one
// that lies behind most calls, then the one that got worse by the largest factor.
func deepest(sick []*place) *place {
	var best *place
	for _, p := range sick {
		leaf := !slices.ContainsFunc(sick, func(other *place) bool {
			return other != p && slices.Contains(p.calls, other.name)
		})
		if leaf && (best == nil || p.outranks(*best)) {
			best = p
		}
	}
	if best == nil && len(sick) > 0 {
		return sick[len(sick)-1] // they call each other in a circle
	}
	return best
}

func (p place) outranks(other place) bool {
	if p.depth != other.depth {
		return p.depth > other.depth
	}
	return p.dev.severity > other.dev.severity
}

// sentence says what a service's metric shows.
func (q *inquiry) sentence(p place) string {
	return p.series.metric + " of " + p.name + " went from " + p.series.with(p.dev.before) + " to " + p.series.with(p.dev.from) + " at " + p.dev.from.t() + "."
}
