package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/bed"
)

type demo struct {
	options
	bed   *bed.Bed
	began time.Time
	laps  []lap
	// last is what was last said of a host.
	last map[string]string
}

type lap struct {
	name    string
	seconds float64
}

func (d *demo) say(format string, args ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

// lap runs one part and keeps its seconds.
func (d *demo) lap(name string, f func() error) error {
	start := time.Now()
	err := f()
	d.laps = append(d.laps, lap{name, time.Since(start).Seconds()})
	return err
}

func (d *demo) show(ctx context.Context) error {
	d.laps = append(d.laps, lap{"control plane and controllers", time.Since(d.began).Seconds()})
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"operator", d.startOperator},
		{fmt.Sprintf("%d Ready nodes", d.replicas), d.grow},
		{fmt.Sprintf("scaled to %d", d.replicas-1), d.shrink},
	} {
		if err := d.lap(part.name, func() error { return part.run(ctx) }); err != nil {
			return err
		}
	}
	d.sum()
	return nil
}

// sum prints what each part took.
func (d *demo) sum() {
	fmt.Println()
	for _, l := range d.laps {
		fmt.Printf("%8.1f s  %s\n", l.seconds, l.name)
	}
	fmt.Printf("%8.1f s  in all\n", time.Since(d.began).Seconds())
}

func (d *demo) startOperator(ctx context.Context) error {
	if err := d.bed.ApplyProfile(ctx); err != nil {
		return err
	}
	d.say("$ windows-machine-operator --allow-loopback-hosts ... (as serviceaccount %s)", bed.Namespace)
	return d.bed.StartOperator(ctx)
}

func (d *demo) grow(ctx context.Context) error {
	d.say("$ kubectl apply -f config/samples/machineset.yaml   (replicas: %d)", d.replicas)
	if err := d.bed.ApplyMachineSet(ctx, d.replicas); err != nil {
		return err
	}
	if err := d.follow(ctx, d.ready); err != nil {
		return err
	}
	if err := d.checkNodes(ctx); err != nil {
		return err
	}
	return d.get(ctx)
}

func (d *demo) shrink(ctx context.Context) error {
	d.say("$ kubectl scale -n %s machineset win --replicas=%d", bed.MachineNamespace, d.replicas-1)
	if out, err := d.bed.Kubectl(ctx, "scale", "-n", bed.MachineNamespace, "machineset.machine.openshift.io/win", fmt.Sprintf("--replicas=%d", d.replicas-1)); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if err := d.follow(ctx, d.gone); err != nil {
		return err
	}
	d.say("Machine, WindowsHost and Node are gone, %d of each are left", d.replicas-1)
	return d.get(ctx)
}

// get prints what an admin would look at.
func (d *demo) get(ctx context.Context) error {
	fmt.Println("\n$ kubectl get -A machines,winhost,nodes,csr")
	out, err := d.bed.Kubectl(ctx, "get", "-A", "machines.machine.openshift.io,winhost,nodes,csr")
	fmt.Printf("%s\n", out)
	return err
}

// follow prints each change of a host's step until done says so.
func (d *demo) follow(ctx context.Context, done func(context.Context) (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := d.changes(ctx); err != nil {
			return err
		}
		ok, err := done(ctx)
		if err != nil || ok {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("it took too long: %w", ctx.Err())
		case <-d.bed.OperatorDone():
			return errors.New("the operator ended by itself")
		}
	}
}

// changes prints the hosts whose row has changed.
func (d *demo) changes(ctx context.Context) error {
	var hosts v1alpha1.WindowsHostList
	if err := d.bed.Client.List(ctx, &hosts, client.InNamespace(bed.Namespace)); err != nil {
		return err
	}
	if d.last == nil {
		d.last = map[string]string{}
	}
	for i := range hosts.Items {
		h := &hosts.Items[i]
		row := rowOf(h)
		if d.last[h.Name] == row {
			continue
		}
		d.last[h.Name] = row
		if d.replicas <= 5 {
			d.say("%-12s %s", h.Name, row)
		}
	}
	if d.replicas > 5 {
		d.tally(hosts.Items)
	}
	return nil
}

func rowOf(h *v1alpha1.WindowsHost) string {
	c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "new"
	}
	return fmt.Sprintf("%-24s Ready=%-8s %s", h.Status.Step, c.Status, c.Reason)
}

// tally prints one line for many machines whenever a count changes.
func (d *demo) tally(hosts []v1alpha1.WindowsHost) {
	ready := 0
	for i := range hosts {
		if meta.IsStatusConditionTrue(hosts[i].Status.Conditions, v1alpha1.ConditionReady) {
			ready++
		}
	}
	row := fmt.Sprintf("%d hosts, %d Ready", len(hosts), ready)
	if d.last["*"] != row {
		d.last["*"] = row
		d.say("%s", row)
	}
}

func (d *demo) ready(ctx context.Context) (bool, error) {
	var hosts v1alpha1.WindowsHostList
	if err := d.bed.Client.List(ctx, &hosts, client.InNamespace(bed.Namespace)); err != nil {
		return false, err
	}
	n := 0
	for i := range hosts.Items {
		if meta.IsStatusConditionTrue(hosts.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
			n++
		}
	}
	return n == d.replicas, nil
}

// gone is when one of each is left less than there were.
func (d *demo) gone(ctx context.Context) (bool, error) {
	for _, list := range []client.ObjectList{&machinev1.MachineList{}, &v1alpha1.WindowsHostList{}, &corev1.NodeList{}} {
		if err := d.bed.Client.List(ctx, list); err != nil {
			return false, err
		}
		if meta.LenList(list) != d.replicas-1 {
			return false, nil
		}
	}
	return d.bed.Hosts() == d.replicas-1, nil
}

// checkNodes checks what the demo promises of the nodes.
func (d *demo) checkNodes(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := d.bed.Client.List(ctx, &nodes, client.MatchingLabels{corev1.LabelOSStable: "windows"}); err != nil {
		return err
	}
	if len(nodes.Items) != d.replicas {
		return fmt.Errorf("%d nodes have label %s=windows, want %d", len(nodes.Items), corev1.LabelOSStable, d.replicas)
	}
	want := corev1.Taint{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}
	for i := range nodes.Items {
		if !hasTaint(nodes.Items[i].Spec.Taints, want) {
			return fmt.Errorf("node %s lacks the taint %s", nodes.Items[i].Name, want.ToString())
		}
	}
	d.say("%d nodes are Ready, labelled %s=windows and tainted %s", len(nodes.Items), corev1.LabelOSStable, want.ToString())
	return nil
}

func hasTaint(taints []corev1.Taint, want corev1.Taint) bool {
	for _, t := range taints {
		if t.MatchTaint(&want) && t.Value == want.Value {
			return true
		}
	}
	return false
}

// lastWords are the last lines of the operator's log and of the kubelets' on machines that are not Ready.
func (d *demo) lastWords() string {
	out := []string{tail(os.ReadFile(d.bed.OperatorLog()))}
	for name := range d.last {
		if _, ok := d.bed.Host(name); ok {
			out = append(out, "the kubelet's on "+name+":", tail(d.bed.File(name, `C:\var\log\kubelet\kubelet.log`)),
				"the agent's journal on "+name+":", tail(d.bed.File(name, `C:\k\wmcb\journal.jsonl`)))
		}
	}
	return strings.Join(out, "\n")
}

// tail is the end of a log.
func tail(b []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	lines = lines[max(0, len(lines)-15):]
	for i, l := range lines {
		lines[i] = l[:min(len(l), 400)]
	}
	return string(bytes.Join(lines, []byte("\n")))
}

// wait leaves everything up.
func (d *demo) wait(ctx context.Context) error {
	fmt.Println(strings.Join([]string{
		"", "Everything is left up. Look around in another terminal:",
		"  export KUBECONFIG=" + d.bed.KubeconfigPath(),
		"  " + d.bed.KubectlPath() + " get winhost -A -w",
		"  " + d.bed.KubectlPath() + " describe winhost -n " + bed.Namespace,
		"  tail -f " + d.bed.OperatorLog(),
		"Stop it with Ctrl-C here; nothing stays behind.",
	}, "\n"))
	<-ctx.Done()
	return nil
}
