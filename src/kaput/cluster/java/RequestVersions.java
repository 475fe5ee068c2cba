import java.io.FileWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

/**
 * Writes down which client sends which request in which version: a line for the first of each kind. Permits
 * everything, and answers questions about ACLs as a broker without an authorizer does.
 *
 * <p>An authorizer is the only part of a broker that may be given to it and sees client id and version of each
 * request; its metrics have versions, but no clients. Compiled as KaputProducer.java is (`make java`).
 */
public final class RequestVersions implements Authorizer {
    private static final int MOST = 10_000; // of kinds: a cluster that stays may see ever new client ids

    private final Set<String> seen = ConcurrentHashMap.newKeySet();
    private FileWriter file;

    @Override
    public void configure(Map<String, ?> settings) {
        try {
            file = new FileWriter(String.valueOf(settings.get("kaput.requests")), true);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext request, List<Action> actions) {
        note(request);
        return Collections.nCopies(actions.size(), AuthorizationResult.ALLOWED);
    }

    @Override
    public AuthorizationResult authorizeByResourceType(
            AuthorizableRequestContext request, AclOperation operation, ResourceType type) {
        note(request);
        return AuthorizationResult.ALLOWED;
    }

    private void note(AuthorizableRequestContext request) {
        String kind = request.requestType() + "\t" + request.requestVersion() + "\t" + request.clientId();
        if (seen.contains(kind) || seen.size() >= MOST || !seen.add(kind)) return;
        synchronized (this) {
            try {
                file.write(System.currentTimeMillis() + "\t" + ApiKeys.forId(request.requestType()).name + "\t"
                    + request.requestVersion() + "\t" + request.clientId() + "\n");
                file.flush();
            } catch (IOException full) {
                // A full disk is no reason to refuse a request.
                seen.remove(kind);
            }
        }
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo server) {
        Map<Endpoint, CompletionStage<Void>> ready = new HashMap<>();
        server.endpoints().forEach(one -> ready.put(one, CompletableFuture.completedFuture(null)));
        return ready;
    }

    @Override
    public Iterable<AclBinding> acls(AclBindingFilter filter) {
        throw disabled();
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(
            AuthorizableRequestContext request, List<AclBinding> bindings) {
        List<CompletionStage<AclCreateResult>> results = new ArrayList<>();
        bindings.forEach(one -> results.add(CompletableFuture.completedFuture(new AclCreateResult(disabled()))));
        return results;
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(
            AuthorizableRequestContext request, List<AclBindingFilter> filters) {
        List<CompletionStage<AclDeleteResult>> results = new ArrayList<>();
        filters.forEach(one -> results.add(CompletableFuture.completedFuture(new AclDeleteResult(disabled()))));
        return results;
    }

    private static SecurityDisabledException disabled() {
        return new SecurityDisabledException("No Authorizer is configured.");
    }

    @Override
    public void close() throws IOException {
        if (file != null) file.close();
    }
}
