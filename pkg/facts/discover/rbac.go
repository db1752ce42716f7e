package discover

// What Cluster reads. All but the lists are reads of objects by name, so that an uncached reader needs no list or watch.
//
// +kubebuilder:rbac:groups=config.openshift.io,resources=infrastructures;networks,verbs=get
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=controllerconfigs;machineconfigpools;machineconfigs,verbs=get
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=configmaps,resourceNames=coredns;extension-apiserver-authentication;kube-proxy;kube-root-ca.crt;kubeadm-config;kubelet-config,verbs=get
// +kubebuilder:rbac:groups="",namespace=kube-public,resources=configmaps,resourceNames=cluster-info,verbs=get
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list
// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=default,resources=endpointslices,verbs=list
// +kubebuilder:rbac:groups=networking.k8s.io,resources=servicecidrs,verbs=list
// +kubebuilder:rbac:groups="",namespace=windows-machine-operator,resources=secrets;configmaps,verbs=get
