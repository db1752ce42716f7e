package discover

// kube-flannel-cfg is readable in every namespace, since a Role for namespace kube-flannel could not be applied where there is none. To create
// Services is not asked for: RBAC cannot tell a dry run, and who may create one may take traffic by externalIPs. Where the right is given,
// Input.Create uses it.
//
// What Cluster reads. All but the lists are reads of objects by name, so that an uncached reader needs no list or watch.
//
// +kubebuilder:rbac:groups=config.openshift.io,resources=infrastructures;networks,verbs=get
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=controllerconfigs;machineconfigpools;machineconfigs,verbs=get
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=configmaps,resourceNames=amazon-vpc-cni;antrea-config;canal-config;cilium-config;coredns;extension-apiserver-authentication;kube-proxy;kube-root-ca.crt;kube-router-cfg;kubeadm-config;kubelet-config,verbs=get
// +kubebuilder:rbac:groups="",namespace=kube-public,resources=configmaps,resourceNames=cluster-info,verbs=get
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list
// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=default,resources=endpointslices,verbs=list
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=kube-flannel-cfg,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=pods,verbs=list
// +kubebuilder:rbac:groups=crd.projectcalico.org,resources=ippools,verbs=list
// +kubebuilder:rbac:groups=crd.projectcalico.org,resources=felixconfigurations;ipamconfigs,resourceNames=default,verbs=get
// +kubebuilder:rbac:groups=operator.tigera.io,resources=installations,resourceNames=default,verbs=get
// +kubebuilder:rbac:groups=networking.k8s.io,resources=servicecidrs,verbs=list
// +kubebuilder:rbac:groups="",namespace=windows-machine-operator,resources=secrets;configmaps,verbs=get
