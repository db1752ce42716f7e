package windows

import (
	"errors"
	"fmt"

	"github.com/go-ole/go-ole"
	"github.com/go-ole/go-ole/oleutil"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Defender is reached through its WMI class, as its own management tools do ("MSFT_MpPreference class").
const (
	defenderService   = "WinDefend"
	defenderNamespace = `root\Microsoft\Windows\Defender`
	defenderClass     = "MSFT_MpPreference"
)

// maxExclusions bounds one list of exclusions.
const maxExclusions = 10_000

// defender is Microsoft Defender Antivirus.
type defender struct{}

// Running is false where the service does not exist (the feature is removed) or does not run.
func (defender) Running() (bool, error) {
	status, err := services{}.Status(defenderService)
	if errors.Is(err, system.ErrServiceNotFound) {
		return false, nil
	}
	return status.State == system.ServiceRunning, err
}

// Has is false also where a policy hides the list from administrators, whose entries then read as a sentence.
func (defender) Has(e plan.DefenderExclusion) (found bool, err error) {
	property, value, err := exclusion(e)
	if err != nil {
		return false, err
	}
	err = withDefender(func(service *ole.IDispatch) error {
		list, err := exclusions(service, property)
		found = excluded(list, value)
		return err
	})
	return found, failed("look for Defender exclusion", value, err)
}

func (d defender) Add(e plan.DefenderExclusion) error { return d.call("Add", e) }

func (d defender) Delete(e plan.DefenderExclusion) error { return d.call("Remove", e) }

// call executes a method of the class, which takes lists named as the properties are.
func (defender) call(method string, e plan.DefenderExclusion) error {
	property, value, err := exclusion(e)
	if err != nil {
		return err
	}
	err = withDefender(func(service *ole.IDispatch) error {
		return withParameters(service, method, func(parameters *ole.IDispatch) error {
			if err := setParameter(parameters, property, []string{value}); err != nil {
				return err
			}
			v, err := oleutil.CallMethod(service, "ExecMethod", defenderClass, method, parameters)
			return withChild(v, err, func(out *ole.IDispatch) error {
				var code int32
				if err := wmiValue(out, "ReturnValue", func(v *ole.VARIANT) { code = int32(v.Val) }); err != nil {
					return err
				}
				if code != 0 {
					return refuse(method, "", uint32(code))
				}
				return nil
			})
		})
	})
	return failed("change Defender exclusion", value, err)
}

// withDefender calls f with the services of Defender's namespace.
func withDefender(f func(service *ole.IDispatch) error) error { return withWMI(defenderNamespace, f) }

// withWMI calls f with the services of a namespace of WMI (SWbemServices).
func withWMI(namespace string, f func(service *ole.IDispatch) error) error {
	return withCOM(func() error {
		return withObject("WbemScripting.SWbemLocator", func(locator *ole.IDispatch) error {
			v, err := oleutil.CallMethod(locator, "ConnectServer", ".", namespace)
			return withChild(v, err, f)
		})
	})
}

// exclusions reads one list of the only instance of the class.
func exclusions(service *ole.IDispatch, property string) ([]string, error) {
	var out []string
	v, err := oleutil.CallMethod(service, "InstancesOf", defenderClass)
	err = withChild(v, err, func(instances *ole.IDispatch) error {
		return oleutil.ForEach(instances, func(v *ole.VARIANT) error {
			return withChild(v, nil, func(instance *ole.IDispatch) error {
				return wmiValue(instance, property, func(v *ole.VARIANT) { out = append(out, stringsOf(v)...) })
			})
		})
	})
	if len(out) > maxExclusions {
		return nil, fmt.Errorf("more than %d exclusions", maxExclusions)
	}
	return out, err
}

// stringsOf reads a list, which is null when it is empty.
func stringsOf(v *ole.VARIANT) []string {
	list := v.ToArray()
	if list == nil {
		return nil
	}
	var out []string
	for _, item := range list.ToValueArray() {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// withParameters calls f with an instance of a method's input parameters.
func withParameters(service *ole.IDispatch, method string, f func(*ole.IDispatch) error) error {
	v, err := oleutil.CallMethod(service, "Get", defenderClass)
	return withChild(v, err, func(class *ole.IDispatch) error {
		v, err := oleutil.GetProperty(class, "Methods_")
		return withChild(v, err, func(methods *ole.IDispatch) error {
			v, err := oleutil.CallMethod(methods, "Item", method)
			return withChild(v, err, func(found *ole.IDispatch) error {
				v, err := oleutil.GetProperty(found, "InParameters")
				return withChild(v, err, func(parameters *ole.IDispatch) error {
					v, err := oleutil.CallMethod(parameters, "SpawnInstance_")
					return withChild(v, err, f)
				})
			})
		})
	})
}

func setParameter(parameters *ole.IDispatch, name string, value []string) error {
	return withWMIProperty(parameters, name, func(p *ole.IDispatch) error { return put(p, namedValue{"Value", value}) })
}

// wmiValue calls f with the value of a WMI object's property.
func wmiValue(object *ole.IDispatch, name string, f func(*ole.VARIANT)) error {
	return withWMIProperty(object, name, func(p *ole.IDispatch) error {
		v, err := oleutil.GetProperty(p, "Value")
		if err != nil {
			return err
		}
		f(v)
		return v.Clear()
	})
}

func withWMIProperty(object *ole.IDispatch, name string, f func(*ole.IDispatch) error) error {
	v, err := oleutil.GetProperty(object, "Properties_")
	return withChild(v, err, func(properties *ole.IDispatch) error {
		v, err := oleutil.CallMethod(properties, "Item", name)
		return withChild(v, err, f)
	})
}
