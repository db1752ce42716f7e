package wmcbe2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The last lines of the bootstrapper's commands.
const (
	saidInitialized = "Bootstrapping completed successfully"
	saidConfigured  = "CNI configuration completed successfully"
	saidUninstalled = "kubelet uninstalled successfully"
)

// Run is one run on one machine.
type Run struct {
	o     Options
	c     client.Client
	keep  *artifacts
	logf  func(string, ...any)
	guest *guest
	// ignition is the worker's ignition file.
	ignition []byte
	// address is the machine's.
	address string
	// nodes are the names that the machine's node may have, node is the one that it has.
	nodes []string
	node  string
	// remove takes the MachineSet away that was made, nil when none was.
	remove func(context.Context) error
	// kept is whether the machine's journal is among the artifacts.
	kept bool
}

// Phase is one thing that is shown.
type Phase struct {
	Name string
	Run  func(context.Context) error
}

// New prepares a run. Nothing is done before its phases; CleanUp ends it in any case.
func New(o Options, logf func(string, ...any)) (*Run, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	keep, err := newArtifacts(o.Artifacts)
	if err != nil {
		return nil, err
	}
	c, err := newClient(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return &Run{o: o, c: c, keep: keep, logf: logf}, nil
}

// Phases are to be run one after the other; each rests on those before it.
func (b *Run) Phases() []Phase {
	out := []Phase{
		{"machine", b.machine},
		{"upload", b.upload},
		{"initialize-kubelet", b.initialize},
		{"node", b.registered},
		{"ignition of spec 2.4", b.olderIgnition},
		{"initialize-kubelet again", b.initializeAgain},
		{"not ready without a network", b.isReady(false)},
	}
	if b.o.Network != "" {
		out = append(out,
			Phase{"configure-cni", b.configure},
			Phase{"configure-cni again", b.configure},
			Phase{"ready", b.isReady(true)},
			Phase{"initialize-kubelet drops the network", b.initialize},
			Phase{"not ready any more", b.isReady(false)},
			Phase{"configure-cni after it", b.configure},
			Phase{"ready again", b.isReady(true)},
		)
	} else {
		b.logf("configure-cni is not run: -hns-network names no network")
	}
	return append(out,
		Phase{"journal", b.journal},
		Phase{"uninstall-kubelet", b.uninstall},
		Phase{"uninstall-kubelet again", b.uninstall},
	)
}

// machine finds or makes the machine and logs in.
func (b *Run) machine(ctx context.Context) error {
	list, err := machines(ctx, b.c)
	if err != nil {
		return err
	}
	m, err := pick(list)
	if !b.o.SkipVMSetup {
		m, b.remove, err = makeMachine(ctx, b.c, b.o.AMI, b.logf)
	}
	if err != nil {
		return err
	}
	b.nodes, b.address = names(m), address(m)
	b.logf("Machine %s at %s; its node is one of %s", m.Name, address(m), strings.Join(b.nodes, ", "))
	if err := b.keep.object("machine", &m); err != nil {
		return err
	}
	b.guest, err = connect(ctx, b.o, address(m), b.keep, b.logf)
	return err
}

func (b *Run) upload(ctx context.Context) error {
	var err error
	if b.ignition, err = workerIgnition(ctx, b.c, b.o.Ignition); err != nil {
		return err
	}
	return b.guest.upload(ctx, b.o, b.ignition)
}

// olderIgnition has the next commands read the same in an older spec, which must make no difference to them.
func (b *Run) olderIgnition(ctx context.Context) error {
	older, err := spec2(b.ignition)
	if err != nil {
		return err
	}
	return b.guest.put(ctx, remoteIgnition, older)
}

// initialize names the address, since a kubelet with an external cloud provider has none before that has said one, and asks for no serving
// certificate until then.
func (b *Run) initialize(ctx context.Context) error {
	return b.guest.says(ctx, saidInitialized, "initialize-kubelet", "--ignition-file", remoteIgnition, "--kubelet-path", remoteKubelet,
		"--containerd-path", remote, "--node-ip", b.address)
}

func (b *Run) configure(ctx context.Context) error {
	config := fmt.Sprintf(`{"cniVersion":"0.2.0","name":%q,"type":"win-overlay","apiVersion":2,"capabilities":{"dns":true},"ipam":{"type":"host-local","subnet":%q}}`,
		b.o.Network, b.o.Subnet)
	if err := b.guest.put(ctx, remoteConfig, []byte(config)); err != nil {
		return err
	}
	return b.guest.says(ctx, saidConfigured, "configure-cni", "--cni-dir", remoteCNI, "--cni-config", remoteConfig)
}

func (b *Run) uninstall(ctx context.Context) error {
	return b.guest.says(ctx, saidUninstalled, "uninstall-kubelet")
}

var errNode = errors.New("the Node is not as the bootstrapper makes it")

// registered approves the kubelet's requests until the Node is there with its label and taint and has a serving certificate.
func (b *Run) registered(ctx context.Context) error {
	var approved int
	err := until(ctx, nodePatience, func(ctx context.Context) (bool, string, error) {
		n, err := approve(ctx, b.c, b.nodes)
		approved += n
		if err != nil {
			return false, "", err
		}
		node, err := b.find(ctx)
		if err != nil || node == nil {
			return false, "there is no Node yet", err
		}
		b.node = node.Name
		// The second request is that for the serving certificate, which the kubelet sends once it has registered.
		return approved >= 2, fmt.Sprintf("%d certificate requests were approved", approved), nil
	})
	if err != nil {
		return err
	}
	node, err := b.find(ctx)
	if err != nil || node == nil {
		return errors.Join(err, errNode)
	}
	b.logf("Node %s has registered", b.node)
	return errors.Join(nodeIsRight(*node), b.keep.object("node", node))
}

// find returns the machine's Node, nil when there is none.
func (b *Run) find(ctx context.Context) (*corev1.Node, error) {
	for _, name := range b.nodes {
		var n corev1.Node
		err := b.c.Get(ctx, client.ObjectKey{Name: name}, &n)
		if err == nil {
			return &n, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("looking for Node %s: %w", name, err)
		}
	}
	return nil, nil
}

func nodeIsRight(n corev1.Node) error {
	if n.Labels[corev1.LabelOSStable] != "windows" {
		return fmt.Errorf("%w: label %s is %q", errNode, corev1.LabelOSStable, n.Labels[corev1.LabelOSStable])
	}
	if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == "os" && t.Value == "Windows" && t.Effect == corev1.TaintEffectNoSchedule
	}) {
		return fmt.Errorf("%w: it has no taint os=Windows:NoSchedule but %v", errNode, n.Spec.Taints)
	}
	return nil
}

// initializeAgain changes nothing that the cluster would see: the kubelet keeps its certificate.
func (b *Run) initializeAgain(ctx context.Context) error {
	before, err := b.find(ctx)
	if err != nil {
		return err
	}
	if err := b.initialize(ctx); err != nil {
		return err
	}
	n, err := approve(ctx, b.c, b.nodes)
	if err != nil {
		return err
	}
	after, err := b.find(ctx)
	if err != nil || after == nil || before == nil || after.UID != before.UID || n != 0 {
		return errors.Join(err, fmt.Errorf("%w: it was made anew, or %d certificate requests were sent", errNode, n))
	}
	return nil
}

// isReady waits until the Node's condition Ready is true, or is not.
func (b *Run) isReady(want bool) func(context.Context) error {
	return func(ctx context.Context) error {
		return until(ctx, nodePatience, func(ctx context.Context) (bool, string, error) {
			n, err := b.find(ctx)
			if err != nil || n == nil {
				return false, "there is no Node", err
			}
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady {
					return (c.Status == corev1.ConditionTrue) == want, c.Message, nil
				}
			}
			return false, "the Node has no condition Ready", nil
		})
	}
}

// journal keeps what the machine says of itself, and its logs.
func (b *Run) journal(ctx context.Context) error {
	for _, command := range []string{"facts", "status"} {
		if _, err := b.guest.wmcb(ctx, command, "--json"); err != nil {
			return err
		}
	}
	files, err := fetch(ctx, b.guest.target, b.guest.hostKey, kept())
	if err != nil {
		return err
	}
	for path, content := range files {
		if err := b.keep.write(path[strings.LastIndex(path, `\`)+1:], content); err != nil {
			return err
		}
	}
	b.kept = true
	return nil
}

// CleanUp removes what was made on the machine and in the cluster, as far as it goes.
func (b *Run) CleanUp(ctx context.Context) error {
	var errs []error
	if b.guest != nil {
		if !b.kept {
			errs = append(errs, b.journal(ctx))
		}
		_, err := b.guest.wmcb(ctx, "uninstall-kubelet")
		errs = append(errs, err, b.guest.conn.RemoveAll(ctx, remote), b.guest.conn.Close())
	}
	if n, err := b.find(ctx); err != nil {
		errs = append(errs, err)
	} else if n != nil {
		errs = append(errs, client.IgnoreNotFound(b.c.Delete(ctx, n)))
	}
	if b.remove != nil {
		errs = append(errs, b.remove(ctx))
	}
	return errors.Join(errs...)
}

// Print writes the artifacts to a log, packed, if the flags ask for it.
func (b *Run) Print(w io.Writer) error {
	if !b.o.ToLog {
		return nil
	}
	return b.keep.print(w)
}
