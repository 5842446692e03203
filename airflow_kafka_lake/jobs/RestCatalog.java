package airflow_kafka_lake;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;

import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.rest.ErrorHandler;
import org.apache.iceberg.rest.HTTPClient;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.rest.RESTClient;
import org.apache.iceberg.rest.RESTUtil;
import org.apache.iceberg.rest.responses.ErrorResponse;

/**
 * Iceberg's REST catalog, for servers that answer 400 to a commit that another one of the table came before. Why:
 * docs/decisions/0009-a-lost-race-is-told-to-iceberg.md. `make jar` compiles it.
 *
 * Iceberg makes a commit again, of the same files on the table as it is then, when it is told that another came first. By
 * 400 it is not: it gives the commit up and removes its files.
 */
public final class RestCatalog extends RESTCatalog {
    public RestCatalog() {
        super(settings -> telling(HTTPClient.builder(settings)
            .uri(settings.get("uri"))
            .withHeaders(RESTUtil.configHeaders(settings))
            .build()));
    }

    /** Return a client that tells of commits that lost their race. Iceberg derives further ones from it, one a login. */
    static RESTClient telling(RESTClient client) {
        Class<?>[] kinds = {RESTClient.class};
        return (RESTClient) Proxy.newProxyInstance(RestCatalog.class.getClassLoader(), kinds, (its, method, given) -> {
            for (int place = 0; given != null && place < given.length; place++) {
                if (given[place] instanceof ErrorHandler) {
                    given[place] = new Answers((ErrorHandler) given[place]);
                }
            }
            try {
                Object found = method.invoke(client, given);
                return found instanceof RESTClient ? telling((RESTClient) found) : found;
            } catch (InvocationTargetException error) {
                throw error.getCause();
            }
        });
    }

    /** The refusals of a server, as Iceberg reads them, but for the one that it misreads. */
    private static final class Answers extends ErrorHandler {
        private final ErrorHandler others;

        Answers(ErrorHandler others) {
            this.others = others;
        }

        public ErrorResponse parseResponse(int code, String text) {
            return others.parseResponse(code, text);
        }

        public void accept(ErrorResponse error) {
            if (error.code() == 400 && String.valueOf(error.message()).contains("add snapshot with sequence number")) {
                throw new CommitFailedException("Commit failed: %s", error.message());
            }
            others.accept(error);
        }
    }
}
