package wmcbe2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The phases of a Machine whose virtual machine runs; Running is one that has been a node before.
const (
	phaseProvisioned = "Provisioned"
	phaseRunning     = "Running"
)

var (
	errNoMachine = errors.New("there is no Machine with label " + osLabel + "=Windows that is Provisioned and has an address: make a MachineSet with that label, or leave out -skipVMSetup")
	errNoWorker  = errors.New("there is no MachineSet to copy: make one with label " + osLabel + "=Windows and use -skipVMSetup")
)

// pick returns the machine to use: the first by name that is Provisioned, else one that runs.
func pick(list []machinev1.Machine) (machinev1.Machine, error) {
	slices.SortFunc(list, func(a, b machinev1.Machine) int { return strings.Compare(a.Name, b.Name) })
	for _, phase := range []string{phaseProvisioned, phaseRunning} {
		for _, m := range list {
			if m.Status.Phase != nil && *m.Status.Phase == phase && m.DeletionTimestamp.IsZero() && address(m) != "" {
				return m, nil
			}
		}
	}
	return machinev1.Machine{}, errNoMachine
}

// address is where the machine is reached.
func address(m machinev1.Machine) string {
	for _, a := range m.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// names are those that the machine's node may have, in lower case.
func names(m machinev1.Machine) []string {
	var out []string
	for _, a := range m.Status.Addresses {
		if a.Type == corev1.NodeHostName || a.Type == corev1.NodeInternalDNS {
			full := strings.ToLower(a.Address)
			short, _, _ := strings.Cut(full, ".")
			out = append(out, full, short)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// machines lists the Windows Machines.
func machines(ctx context.Context, c client.Client) ([]machinev1.Machine, error) {
	var list machinev1.MachineList
	if err := c.List(ctx, &list, client.InNamespace(machineNamespace), client.MatchingLabels{osLabel: "Windows"}); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	return list.Items, nil
}

// setName is the MachineSet that is made.
const setName = "wmcb-e2e"

// windowsSet is a copy of a worker MachineSet with one Windows machine: another image, and the user data that turns SSH on.
func windowsSet(worker machinev1.MachineSet, ami string) (*machinev1.MachineSet, error) {
	if worker.Spec.Template.Spec.ProviderSpec.Value == nil {
		return nil, fmt.Errorf("MachineSet %s: %w", worker.Name, errNoWorker)
	}
	var provider map[string]any
	if err := json.Unmarshal(worker.Spec.Template.Spec.ProviderSpec.Value.Raw, &provider); err != nil {
		return nil, fmt.Errorf("MachineSet %s: spec.template.spec.providerSpec.value: %w", worker.Name, err)
	}
	provider["ami"] = map[string]any{"id": ami}
	provider["userDataSecret"] = map[string]any{"name": "windows-user-data"}
	raw, err := json.Marshal(provider)
	if err != nil {
		return nil, err
	}
	one := int32(1)
	selector := map[string]string{"machine.openshift.io/cluster-api-machineset": setName}
	set := &machinev1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: machineNamespace, Name: setName, Labels: worker.Labels},
		Spec:       *worker.Spec.DeepCopy(),
	}
	set.Spec.Replicas = &one
	set.Spec.Selector.MatchLabels = selector
	if set.Spec.Template.Labels == nil {
		set.Spec.Template.Labels = map[string]string{}
	}
	set.Spec.Template.Labels["machine.openshift.io/cluster-api-machineset"] = setName
	set.Spec.Template.Labels[osLabel] = "Windows"
	set.Spec.Template.Spec.ProviderSpec.Value.Raw = raw
	return set, nil
}

// makeMachine makes a MachineSet and waits until its machine is Provisioned. The returned function removes it.
func makeMachine(ctx context.Context, c client.Client, ami string, logf func(string, ...any)) (machinev1.Machine, func(context.Context) error, error) {
	var list machinev1.MachineSetList
	if err := c.List(ctx, &list, client.InNamespace(machineNamespace)); err != nil {
		return machinev1.Machine{}, nil, fmt.Errorf("listing MachineSets: %w", err)
	}
	i := slices.IndexFunc(list.Items, func(s machinev1.MachineSet) bool { return s.Spec.Template.Labels[osLabel] != "Windows" })
	if i < 0 {
		return machinev1.Machine{}, nil, errNoWorker
	}
	set, err := windowsSet(list.Items[i], ami)
	if err != nil {
		return machinev1.Machine{}, nil, err
	}
	if err := c.Create(ctx, set); err != nil {
		return machinev1.Machine{}, nil, fmt.Errorf("making MachineSet %s: %w", setName, err)
	}
	logf("made MachineSet %s after %s", setName, list.Items[i].Name)
	remove := func(ctx context.Context) error { return client.IgnoreNotFound(c.Delete(ctx, set)) }
	var found machinev1.Machine
	err = until(ctx, provisionPatience, func(ctx context.Context) (bool, string, error) {
		all, err := machines(ctx, c)
		if err != nil {
			return false, "", err
		}
		mine := slices.DeleteFunc(all, func(m machinev1.Machine) bool {
			return m.Labels["machine.openshift.io/cluster-api-machineset"] != setName
		})
		found, err = pick(mine)
		return err == nil, fmt.Sprint(err), nil
	})
	if err != nil {
		return machinev1.Machine{}, nil, errors.Join(fmt.Errorf("MachineSet %s: %w", setName, err), remove(context.WithoutCancel(ctx)))
	}
	return found, remove, nil
}
