package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/hostsim"
)

// vanilla joins one machine to a cluster that was put together by hand: what happens while the controller manager gives nodes no pod range, and what
// after it does.
type vanilla struct {
	demo
	host *hostsim.Host
	// before is what the machine was.
	before fake.Tree
}

// Names of what the admin makes.
const (
	hostName   = "win-1"
	secretName = "windows-key"
)

// linuxNodes are the workers: their pods are where the guide puts them, by the worker's number.
func linuxNodes() []bed.LinuxNode {
	var out []bed.LinuxNode
	for i := range 3 {
		out = append(out, bed.LinuxNode{
			Name: fmt.Sprintf("worker-%d", i), Address: fmt.Sprintf("127.240.0.2%d", i),
			PodIPs: []string{fmt.Sprintf("10.200.%d.2", i), fmt.Sprintf("10.200.%d.3", i)},
		})
	}
	return out
}

func (d *vanilla) show(ctx context.Context) error {
	d.laps = append(d.laps, lap{"control plane", time.Since(d.began).Seconds()})
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"three Linux workers, operator", d.cluster},
		{"host named, and what is missing", d.join},
		{"controller manager mended, node Ready", d.mend},
		{"a Linux worker joins and leaves", d.neighbours},
	} {
		if err := d.lap(part.name, func() error { return part.run(ctx) }); err != nil {
			return err
		}
	}
	d.sum()
	return nil
}

func (d *vanilla) cluster(ctx context.Context) error {
	d.say("a cluster by hand: services %s, DNS %s, no kubeadm-config, no bootstrap tokens, kube-controller-manager without --allocate-node-cidrs", bed.HardWayServices, bed.HardWayDNS)
	for _, n := range linuxNodes() {
		if err := d.bed.AddLinuxNode(ctx, n); err != nil {
			return err
		}
	}
	d.say("three Linux workers without spec.podCIDR, their pods at 10.200.0.0/24, 10.200.1.0/24, 10.200.2.0/24")
	if err := d.print(ctx, "get", "nodes", "-o", "custom-columns=NAME:.metadata.name,PODCIDR:.spec.podCIDR,ADDRESS:.status.addresses[0].address"); err != nil {
		return err
	}
	return d.bed.StartOperator(ctx)
}

// join is all that the admin does: a Secret, a WindowsHost, and the one fact that such a cluster keeps in nobody's reach.
func (d *vanilla) join(ctx context.Context) error {
	var err error
	if d.host, err = d.bed.NewHost(hostName); err != nil {
		return err
	}
	d.before = d.host.Machine().Dump()
	address, port := d.host.Addr()
	d.say("$ kubectl create secret generic -n %s %s --from-file=private-key.pem=id_ed25519", bed.Namespace, secretName)
	d.say("$ kubectl apply -f - <<< '{kind: WindowsHost, spec: {address: %s, username: Administrator, credentialsRef: {name: %s}, hostKeys: [...]}}'", address, secretName)
	host := &v1alpha1.WindowsHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: hostName},
		Spec: v1alpha1.WindowsHostSpec{
			Address: address, Port: int32(port), Username: "Administrator", HostKeys: []string{d.host.HostKey()},
			CredentialsRef: &v1alpha1.SecretReference{Name: secretName},
		},
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: secretName},
		Data:       map[string][]byte{"private-key.pem": d.bed.PrivateKey()},
	}
	for _, o := range []client.Object{secret, host} {
		if err := d.bed.Client.Create(ctx, o); err != nil {
			return err
		}
	}
	if err := d.setPodCIDR(ctx); err != nil {
		return err
	}
	found, err := d.waitFor(ctx, v1alpha1.ReasonNodeCIDRsNotAllocated)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n\n", found)
	for _, want := range []string{"--allocate-node-cidrs=true", "--cluster-cidr", "lease"} {
		if !strings.Contains(found, want) {
			return fmt.Errorf("the condition does not speak of %s", want)
		}
	}
	if diff := cmp.Diff(d.before, d.host.Machine().Dump(), untouched()); diff != "" {
		return fmt.Errorf("the machine was changed although the cluster is not ready for it: -before +after\n%s", diff)
	}
	d.say("the machine has not been changed")
	return nil
}

// setPodCIDR says what no object of such a cluster says: the controller manager's --cluster-cidr.
func (d *vanilla) setPodCIDR(ctx context.Context) error {
	if _, err := d.waitFor(ctx, v1alpha1.ReasonFactsMissing); err != nil {
		return err
	}
	return d.patch(ctx, "merge", fmt.Sprintf(`{"spec":{"cluster":{"podCIDRs":[%q]}}}`, bed.HardWayPods))
}

func (d *vanilla) patch(ctx context.Context, kind, patch string) error {
	d.say("$ kubectl patch winprofile default --type=%s -p '%s'", kind, patch)
	out, err := d.bed.Kubectl(ctx, "patch", "winprofile", "default", "--type="+kind, "-p", patch)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// waitFor returns the text of the condition of the host that has that reason.
func (d *vanilla) waitFor(ctx context.Context, reason string) (string, error) {
	var found string
	err := d.follow(ctx, func(ctx context.Context) (bool, error) {
		h, err := d.windowsHost(ctx)
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(h.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == reason })
		if i < 0 {
			return false, nil
		}
		c := h.Status.Conditions[i]
		found = fmt.Sprintf("  %s=%s %s\n  %s", c.Type, c.Status, c.Reason, strings.ReplaceAll(c.Message, "; ", ";\n    "))
		return true, nil
	})
	return found, err
}

func (d *vanilla) windowsHost(ctx context.Context) (*v1alpha1.WindowsHost, error) {
	h := &v1alpha1.WindowsHost{}
	return h, d.bed.Client.Get(ctx, client.ObjectKey{Namespace: bed.Namespace, Name: hostName}, h)
}

// mend starts the controller manager with its flags, and does what the operator says if it gave the ranges out in another order than the workers have.
func (d *vanilla) mend(ctx context.Context) error {
	d.say("kube-controller-manager is started again with --allocate-node-cidrs=true --cluster-cidr=%s", bed.HardWayPods)
	if err := d.bed.AllocateNodeCIDRs(); err != nil {
		return err
	}
	told := ""
	err := d.follow(ctx, func(ctx context.Context) (bool, error) {
		h, err := d.windowsHost(ctx)
		if err != nil {
			return false, err
		}
		if kind, override := overrideIn(h); override != "" && override != told {
			told = override
			d.say("the ranges were given out in another order than the workers have; the operator names the override")
			if err := d.patch(ctx, kind, override); err != nil {
				return false, err
			}
		}
		return meta.IsStatusConditionTrue(h.Status.Conditions, v1alpha1.ConditionReady), nil
	})
	if err != nil {
		return err
	}
	if told == "" {
		d.say("the ranges were given out in the order that the workers have")
	}
	if err := d.checkRoutes(ctx, linuxNodes()); err != nil {
		return err
	}
	if err := d.otherHalf(ctx); err != nil {
		return err
	}
	return d.tables(ctx)
}

// otherHalf waits for what the operator cannot do: the profile lists the commands that give Linux nodes the route to the machine's pods.
func (d *vanilla) otherHalf(ctx context.Context) error {
	return d.follow(ctx, func(ctx context.Context) (bool, error) {
		var node corev1.Node
		var profile v1alpha1.WindowsNodeProfile
		for name, o := range map[string]client.Object{hostName: &node, v1alpha1.DefaultProfile: &profile} {
			if err := d.bed.Client.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
				return false, err
			}
		}
		n := profile.Status.Network
		return n != nil && slices.ContainsFunc(n.LinuxRoutes, func(c string) bool { return strings.Contains(c, node.Spec.PodCIDR) }), nil
	})
}

// override finds the patch that a condition asks for.
var override = regexp.MustCompile(`kubectl patch winprofile default --type=(\w+) -p '([^']+)'`)

// overrideIn is the patch that the host's conditions ask for because of ranges that do not fit.
func overrideIn(h *v1alpha1.WindowsHost) (kind, patch string) {
	for _, c := range h.Status.Conditions {
		if m := override.FindStringSubmatch(c.Message); c.Reason == v1alpha1.ReasonPodCIDRMismatch && m != nil {
			return m[1], m[2]
		}
	}
	return "", ""
}

// checkRoutes waits until the machine has a route to each worker's pods, where they really are, and to nobody else's.
func (d *vanilla) checkRoutes(ctx context.Context, workers []bed.LinuxNode) error {
	var want []string
	for _, n := range workers {
		want = append(want, podRange(n)+" by "+n.Address)
	}
	var got []string
	err := d.follow(ctx, func(context.Context) (bool, error) {
		routes, err := d.host.Machine().System().Routes.List()
		if err != nil {
			return false, err
		}
		got = got[:0]
		for _, r := range routes {
			got = append(got, r.Destination+" by "+r.NextHop)
		}
		slices.Sort(got)
		return slices.Equal(got, want), nil
	})
	if err != nil {
		return fmt.Errorf("routes on the machine are %q, want %q: %w", got, want, err)
	}
	d.say("routes on the machine: %s", strings.Join(got, ", "))
	return nil
}

// podRange is where the guide puts the pods of a worker.
func podRange(n bed.LinuxNode) string {
	return n.PodIPs[0][:strings.LastIndex(n.PodIPs[0], ".")] + ".0/24"
}

func (d *vanilla) tables(ctx context.Context) error {
	for _, args := range [][]string{
		{"get", "winhost", "-n", bed.Namespace},
		{"get", "winprofile"},
		{"get", "nodes", "-o", "custom-columns=NAME:.metadata.name,OS:.metadata.labels.kubernetes\\.io/os,PODCIDR:.spec.podCIDR,TAINTS:.spec.taints[*].key"},
		{"get", "winprofile", "default", "-o", "jsonpath={.status.network.mode}: {.status.network.why}{\"\\n\"}{range .status.network.linuxRoutes[*]}  {@}{\"\\n\"}{end}"},
	} {
		if err := d.print(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// print runs kubectl and shows what it says.
func (d *vanilla) print(ctx context.Context, args ...string) error {
	fmt.Println("\n$ kubectl " + strings.Join(args, " "))
	out, err := d.bed.Kubectl(ctx, args...)
	fmt.Printf("%s\n", out)
	return err
}

// neighbours: routes follow the nodes.
func (d *vanilla) neighbours(ctx context.Context) error {
	n := bed.LinuxNode{Name: "worker-9", Address: "127.240.0.29"}
	if err := d.bed.AddLinuxNode(ctx, n); err != nil {
		return err
	}
	d.say("worker-9 joins")
	var node corev1.Node
	err := d.follow(ctx, func(ctx context.Context) (bool, error) {
		err := d.bed.Client.Get(ctx, client.ObjectKey{Name: n.Name}, &node)
		return node.Spec.PodCIDR != "", err
	})
	if err != nil {
		return err
	}
	joined := n
	joined.PodIPs = []string{strings.TrimSuffix(node.Spec.PodCIDR, "0/24") + "2"}
	workers := append(linuxNodes(), joined)
	if err := d.checkRoutes(ctx, workers); err != nil {
		return err
	}
	if err := d.bed.RemoveLinuxNode(ctx, n); err != nil {
		return err
	}
	d.say("worker-9 leaves")
	return d.checkRoutes(ctx, linuxNodes())
}

// untouched leaves out the agent's own file, which is there to ask the machine with.
func untouched() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool {
		i, ok := p.Index(-1).(cmp.MapIndex)
		return ok && strings.HasPrefix(strings.ToLower(i.Key().String()), `c:\windows\wmcb`)
	}, cmp.Ignore())
}
