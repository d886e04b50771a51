from streaming.collect.security import Credentials, signed

FIELDS = {"consumerGroup": "orders-group", "Zeta": "1"}


def test_the_signature_is_the_one_of_the_java_client():
    # AclClientRPCHook.doBeforeRequest of 5.4.0 on the same fields
    assert signed(FIELDS, Credentials("key", "secret")) == {
        **FIELDS,
        "AccessKey": "key",
        "Signature": "cRgZJZOC5KE0OhulX9CMZlHaZu0=",
    }
    with_token = signed(FIELDS, Credentials("key", "secret", "tok"))
    assert with_token["Signature"] == "pP7fcEMwSVEWzVCbPCGU6T+Kgz4="
    assert with_token["SecurityToken"] == "tok"


def test_without_credentials_nothing_is_added():
    assert signed(FIELDS, None) == FIELDS
