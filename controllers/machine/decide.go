package machine

import (
	"fmt"
	"maps"
	"reflect"
	"time"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

// view is all that a decision rests on.
type view struct {
	now time.Time
	// machine is nil when it is gone, host when there is none of its name.
	machine       *machinev1.Machine
	host          *v1alpha1.WindowsHost
	node          *corev1.Node
	profile       v1alpha1.WindowsNodeProfileSpec
	namespace     string
	allowLoopback bool
}

// notice is something to tell about the Machine.
type notice struct {
	warning         bool
	reason, message string
}

// decision is what to do. At most one of create, update and remove is set.
type decision struct {
	create *v1alpha1.WindowsHost
	update *v1alpha1.WindowsHost
	remove bool
	// status holds the fields of the host's status that come from the Machine, nil when they stand.
	status *v1alpha1.WindowsHostStatus
	events []notice
}

// decide says what becomes of the WindowsHost of a Machine.
func decide(v view) decision {
	if v.machine == nil || replaced(v) {
		return decision{remove: v.host != nil}
	}
	if v.host != nil && !tied(v.host, v.machine) {
		return conflict(v)
	}
	switch classify(v.machine) {
	case claimHost:
		if v.machine.Annotations[v1alpha1.PausedAnnotation] == "true" {
			return pause(v, nil)
		}
		return decideHost(v)
	case claimLeaving:
		// The Machine controller drains the node, which needs its kubelet; we only stop working on it. The host goes when the
		// Machine is gone.
		return pause(v, nil)
	case claimNone:
		return release(v)
	}
	return decision{}
}

// replaced reports whether the host belongs to an earlier Machine of the same name and namespace.
func replaced(v view) bool {
	return v.host != nil && v.host.Spec.MachineRef != nil &&
		v.host.Spec.MachineRef.Namespace == v.machine.Namespace &&
		v.host.Spec.MachineRef.Name == v.machine.Name &&
		v.host.Spec.MachineRef.UID != string(v.machine.UID)
}

func tied(h *v1alpha1.WindowsHost, m *machinev1.Machine) bool {
	return h.Spec.MachineRef != nil && h.Spec.MachineRef.Namespace == m.Namespace && h.Spec.MachineRef.UID == string(m.UID)
}

func conflict(v view) decision {
	if classify(v.machine) != claimHost {
		return decision{}
	}
	return decision{events: []notice{{
		warning: true, reason: v1alpha1.EventNameConflict,
		message: fmt.Sprintf("WindowsHost %s/%s exists and is not this Machine's; delete it or replace the Machine by one of another name", v.host.Namespace, v.host.Name),
	}}}
}

// release stops work on a Machine that is no longer ours. Its node stays as it is.
func release(v view) decision {
	if v.host == nil {
		return decision{}
	}
	return pause(v, &notice{
		reason:  v1alpha1.EventMachineReleased,
		message: "the Machine lost its label " + OSLabel + "=" + OSLabelValue + " or is labelled " + v1alpha1.IgnoreLabel + "=true: its WindowsHost is paused and its node stays",
	})
}

func pause(v view, e *notice) decision {
	if v.host == nil || v.host.Spec.Paused {
		return decision{}
	}
	h := v.host.DeepCopy()
	h.Spec.Paused = true
	markPaused(h)
	d := decision{update: h}
	if e != nil {
		d.events = append(d.events, *e)
	}
	return d
}

// pausedByMachine marks a pause of ours, so that a user's own pause is never lifted.
const pausedByMachine = v1alpha1.Group + "/paused-by-machine"

func markPaused(h *v1alpha1.WindowsHost) {
	h.Annotations = maps.Clone(h.Annotations)
	if h.Annotations == nil {
		h.Annotations = map[string]string{}
	}
	h.Annotations[pausedByMachine] = "true"
}

func decideHost(v view) decision {
	address := pickAddress(v.machine.Status.Addresses, v.allowLoopback)
	if address == "" {
		return decision{events: []notice{{
			warning: true, reason: v1alpha1.EventNoAddress,
			message: "no usable InternalIP or InternalDNS among status.addresses (link-local, loopback and multicast addresses do not count); waiting for the provider to report one",
		}}}
	}
	if v.host == nil {
		return createHost(v, address)
	}
	return updateHost(v, address)
}

func createHost(v view, address string) decision {
	m := v.machine
	if foreign(v.node) {
		return decision{events: []notice{{
			warning: true, reason: v1alpha1.EventForeignNode,
			message: fmt.Sprintf("Node %s of this Machine was set up by something else; delete the Machine, and the MachineSet makes one that this operator sets up", v.node.Name),
		}}}
	}
	d := decision{create: &v1alpha1.WindowsHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: m.Name},
		Spec: v1alpha1.WindowsHostSpec{
			Address:    address,
			Transport:  v1alpha1.TransportSSH,
			Username:   username(m, v.profile.Connection.Username),
			ProfileRef: v1alpha1.ProfileReference{Name: v1alpha1.DefaultProfile},
			MachineRef: &v1alpha1.MachineReference{Namespace: m.Namespace, Name: m.Name, UID: string(m.UID)},
		},
	}}
	d.events = append(d.events, notice{reason: v1alpha1.EventHostCreated, message: fmt.Sprintf("made WindowsHost %s/%s for %s", v.namespace, m.Name, address)})
	if len(m.Name) > netBIOSLimit {
		d.events = append(d.events, notice{warning: true, reason: v1alpha1.EventNameTooLong, message: fmt.Sprintf(
			"the Machine's name has %d characters and Windows computer names %d at most: the Node may be called otherwise, and Azure and vSphere refuse such machines; shorten the MachineSet's name to %d characters",
			len(m.Name), netBIOSLimit, netBIOSLimit-6)})
	}
	return d
}

// foreign reports whether n is a Node that no host of ours made.
func foreign(n *corev1.Node) bool {
	return n != nil && n.Annotations[v1alpha1.HostUIDAnnotation] == ""
}

func updateHost(v view, address string) decision {
	var d decision
	h := v.host.DeepCopy()
	h.Spec.Address = address
	if h.Annotations[pausedByMachine] != "" {
		h.Spec.Paused = false
		delete(h.Annotations, pausedByMachine)
	}
	if !reflect.DeepEqual(h.Spec, v.host.Spec) {
		d.update = h
	}
	d.status = hostStatus(v)
	return d
}

// hostStatus returns the status fields that come from the Machine, nil when the host has them.
func hostStatus(v view) *v1alpha1.WindowsHostStatus {
	want := v.host.Status.DeepCopy()
	want.MachineAddresses = certificateNames(v.machine)
	if want.MachineProvisioned == nil {
		t := metav1.NewTime(provisionedAt(v.machine))
		want.MachineProvisioned = &t
	}
	if reflect.DeepEqual(*want, v.host.Status) {
		return nil
	}
	return want
}

// provisionedAt is when the Machine's instance came to be, as its own conditions say; without them it is when the Machine was made. The time
// at which we first saw it plays no part: trust on first use would begin anew whenever the operator, or a WindowsHost, is.
func provisionedAt(m *machinev1.Machine) time.Time {
	for _, c := range m.Status.Conditions {
		if c.Type == machinev1.InstanceExistsCondition && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return m.CreationTimestamp.Time
}
