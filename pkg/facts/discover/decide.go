package discover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

// maxMessage bounds text in a message that came from elsewhere.
const maxMessage = 1024

// decide makes facts of what was gathered. It is pure.
func decide(in Input, s sources) (facts.Cluster, []facts.Problem) {
	d := decision{in: in, s: s, found: map[string][]string{}, origin: map[string]string{}}
	w, problem := s.ignition.worker()
	if problem != nil {
		d.problems = append(d.problems, *problem)
	}
	l := climb(in, s, w)
	found := planes(s)
	d.choice = choose(in, found, s.blind)
	for _, fact := range []string{
		facts.APIServer, facts.APIServerCA, facts.KubeletClientCA, facts.ClusterDNS, facts.ClusterDomain,
		facts.PodCIDRs, facts.ServiceCIDRs, facts.Platform,
	} {
		d.settle(fact, l[fact])
	}
	d.noteForbidden()
	d.noteNoIgnition()
	d.noteNetwork()
	c := facts.Cluster{
		APIServer: d.one(facts.APIServer), APIServerCA: d.bytes(facts.APIServerCA), KubeletClientCA: d.bytes(facts.KubeletClientCA),
		ClusterDNS: d.found[facts.ClusterDNS], ClusterDomain: d.one(facts.ClusterDomain),
		PodCIDRs: d.found[facts.PodCIDRs], ServiceCIDRs: d.found[facts.ServiceCIDRs],
		KubeletConfig: w.KubeletConfig, CloudProvider: w.CloudProvider, CloudConfig: w.CloudConfig, Verbosity: w.Verbosity,
		Platform: d.one(facts.Platform), Mode: string(d.choice.mode), Why: d.choice.why, Sources: d.origin,
	}
	if len(found) > 0 {
		c.Plane, d.origin[facts.PodNetwork] = found[0].Plane, found[0].From
	}
	c.ServerNames = serverNames(in, s, l, c.ClusterDomain)
	if c.KubeletConfig != nil {
		d.origin[facts.KubeletConfig] = s.ignition.from
	}
	if c.CloudProvider != "" {
		d.origin[facts.CloudProvider] = s.ignition.from
	}
	return c, order(d.problems)
}

// order puts what is fatal first and keeps the order otherwise. Missing rights lead where a fact is missing: they are the likely cause.
func order(problems []facts.Problem) []facts.Problem {
	fatal := slices.ContainsFunc(problems, func(p facts.Problem) bool { return p.Fatal })
	for i := range problems {
		if problems[i].Reason == v1alpha1.ReasonFactsForbidden {
			problems[i].Fatal = fatal
		}
	}
	slices.SortStableFunc(problems, func(a, b facts.Problem) int { return rank(a) - rank(b) })
	return problems
}

func rank(p facts.Problem) int {
	switch {
	case p.Fatal && p.Reason == v1alpha1.ReasonFactsForbidden:
		return 0
	case p.Fatal:
		return 1
	}
	return 2
}

// decision collects the outcome of decide.
type decision struct {
	in       Input
	s        sources
	choice   choice
	found    map[string][]string
	origin   map[string]string
	problems []facts.Problem
}

func (d *decision) one(fact string) string {
	if v := d.found[fact]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (d *decision) bytes(fact string) []byte {
	if v := d.one(fact); v != "" {
		return []byte(v)
	}
	return nil
}

func (d *decision) add(fact, reason string, fatal bool, format string, args ...any) {
	d.problems = append(d.problems, facts.Problem{Fact: fact, Reason: reason, Fatal: fatal, Message: fmt.Sprintf(format, args...)})
}

// settle takes the first candidate that is usable and reports those that are not and those that contradict it.
func (d *decision) settle(fact string, candidates []candidate) {
	var winner *candidate
	var unusable []string
	for _, c := range candidates {
		values, err := normal(fact, c.values)
		if err != nil {
			unusable = append(unusable, c.source+" "+err.Error())
			continue
		}
		c.values = values
		if winner == nil {
			winner = &c
			continue
		}
		if !winner.loose && !c.loose && !agree(fact, winner.values, c.values) {
			d.disagree(fact, *winner, c)
		}
	}
	if winner == nil {
		d.missing(fact, unusable)
		return
	}
	d.found[fact], d.origin[fact] = winner.values, winner.source
	if winner.guess {
		d.add(fact, v1alpha1.ReasonFactsGuessed, false, "%s: no object says it; %s is %s, and is used. %s",
			fact, winner.source, show(fact, winner.values), d.wayOut(fact))
	}
	for _, u := range unusable {
		d.add(fact, v1alpha1.ReasonFactsDisagree, false, "%s; %s is used", u, winner.source)
	}
}

func (d *decision) disagree(fact string, winner, other candidate) {
	d.add(fact, v1alpha1.ReasonFactsDisagree, false, "%s: %s says %s, %s says %s; the first is used",
		fact, winner.source, show(fact, winner.values), other.source, show(fact, other.values))
}

// show prints values; certificates are only counted.
func show(fact string, values []string) string {
	if fact == facts.APIServerCA || fact == facts.KubeletClientCA {
		return fmt.Sprintf("%d certificates that the other lacks", len(blocks(values)))
	}
	return bounded(strings.Join(values, ", "), maxMessage)
}

// missing reports a fact that no source holds, with the way out.
func (d *decision) missing(fact string, unusable []string) {
	way := d.wayOut(fact)
	if way == "" || len(unusable) == 0 && d.inIgnition(fact) {
		return
	}
	why := ""
	if len(unusable) > 0 {
		why = bounded(strings.Join(unusable, "; "), maxMessage) + ". "
	}
	d.add(fact, v1alpha1.ReasonFactsMissing, d.fatal(fact), "%s not found. %s%s", fact, why, way)
}

// inIgnition: the fact most likely stands in the ignition, which cannot be read; that is said already, and to set the fact by hand would be the
// wrong way out.
func (d *decision) inIgnition(fact string) bool {
	return fact == facts.ClusterDomain && d.s.infra != nil && slices.ContainsFunc(d.problems, func(p facts.Problem) bool {
		return p.Fact == facts.KubeletConfig && p.Fatal
	})
}

// fatal: ranges are needed only where the operator lays out the network itself. Where it is not settled whether it does, that is the problem.
func (d *decision) fatal(fact string) bool {
	if fact != facts.PodCIDRs && fact != facts.ServiceCIDRs {
		return true
	}
	return slices.Contains([]v1alpha1.NetworkMode{
		v1alpha1.NetworkL2Bridge, v1alpha1.NetworkOverlay, v1alpha1.NetworkFlannelVXLAN, v1alpha1.NetworkFlannelHostGW,
	}, d.choice.mode)
}

// noteNetwork reports what stands against the network mode.
func (d *decision) noteNetwork() {
	for _, r := range d.choice.refusals {
		d.add(facts.PodNetwork, v1alpha1.ReasonNetworkUnfit, true, "%s", r)
	}
	for _, doubt := range d.choice.doubts {
		d.add(facts.PodNetwork, v1alpha1.ReasonNetworkUnfit, false, "%s", doubt)
	}
}

// noteForbidden reports reads that were refused. A fact that could not be found for it is fatal by itself.
func (d *decision) noteForbidden() {
	if len(d.s.forbidden) == 0 {
		return
	}
	d.add("", v1alpha1.ReasonFactsForbidden, false, "the operator's service account may not %s. Grant these verbs, as the operator's ClusterRole does",
		bounded(strings.Join(d.s.forbidden, ", "), maxMessage))
}

// noteNoIgnition: OpenShift without a worker pool is a hosted control plane, whose ignition only a person can name.
func (d *decision) noteNoIgnition() {
	if d.s.infra == nil || d.s.ignition.from != "" {
		return
	}
	d.add(facts.KubeletConfig, v1alpha1.ReasonIgnitionMissing, false,
		"this is OpenShift, but there is no MachineConfigPool %s: kubelet configuration and cloud provider are unknown. Name a Secret with key %s in spec.ignition.secretName of WindowsNodeProfile %s",
		workerPool, ignitionKey, d.in.ProfileName)
}
